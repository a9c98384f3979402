"""The ledger: whose loss is bounded, what was charged, and the journal of all that happened.

Where to look:
    ledger                   what others call
    terms, errors, entries   what it is given, answers, refuses with, and writes
    accounts                 decisions, one module each: opening, admission, charges, balances
    store                    the database
    journal, draw_files      what is written once and for all
    replay                   checking that the ledger is what its journal says
"""
