"""The ledger: whose loss is bounded, what was charged, and the journal of all that happened.

Where to look:
    ledger                   what others call
    terms, errors, entries   what it is given, answers, refuses with, and writes
    accounts                 decisions, one module each: opening, admission, charges, balances
    store                    the database, with the journal that it keeps
    journal                  its proofs, signed notes and keys; knows no database
    draw_files               what is written once and for all
    replay                   checking that the ledger is what its journal says
"""
