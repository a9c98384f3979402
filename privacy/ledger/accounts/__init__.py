"""Accounts and their charges: opening, admission, balances, and the entries that they write."""
