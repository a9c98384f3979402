"""The stated loss, computed again by code that shares nothing with the accounting that charged it."""
