"""The ledger: whose loss is bounded, what was charged, and the journal of all that happened.

Where to look:
    ledger                                  what others call
    terms, errors                           what it is told, answers, and refuses with
    opening, admission, charging, grant, publishing, calendar    decisions, one module each
    store, schema, rows                     the database
    journal, entries, merkle, signing, draws    what is written once and for all
    fold, lifecycle, balances, particulars  checking that the ledger is what its journal says
"""
