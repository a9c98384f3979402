"""The review site: what was published, what it cost and how to check it, for people who only look.

Where to look:
    app                                     the routes, and what every answer carries
    asking, rendering, words                who asks and in which language; pages out of templates
    releases, version, comparison           what was published
    accounts, burn_down                     what it cost
    journal                                 what the ledger wrote down, with proofs
    folders, tables, desk                   reading a version's folder, and work that takes long
    auditors, auditor_pages                 who may see more, and what
"""
