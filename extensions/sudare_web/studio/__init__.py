"""The studio: a page on this machine to write contract and spec by choosing, plan, run and verify.

Where to look:
    command                    `sudare studio`: the socket, the address with its token
    door                       who gets in: one browser of this machine
    app, pages                 the routes; pages and pieces of them out of templates
    files                      contract and spec: read, and written only where nobody else wrote meanwhile
    yaml_text, choices         a choice on the form becomes a small change of the YAML
    form, outlook              what the form shows; what the plan foretells, and what would be left of the account
    commands, runs             all else is a command of `sudare` in a process of its own

No module of the studio imports what reads rows (import contract "The studio reads no rows"). It asks for plans, which
follow from spec, contract and ledger. A source is opened by `sudare run`, and its header by `sudare contract draft`.
"""
