"""The review site: what was published, what it cost and how to check it, for people who only look.

Where to look:
    app, metrics_route, tokens              the routes; who may read metrics
    answering, guard, public_address        what every answer carries, and under which address it is met
    asking, rendering                       what pages are made from; pages out of templates
    releases, version, comparison           what was published
    accounts, burn_down                     what it cost
    journal                                 what the ledger wrote down, with proofs
    tables, desk                            first rows of a table, and work that takes long
"""
