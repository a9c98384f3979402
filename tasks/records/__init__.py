"""What a version states and shows: the audit record, the files beside it, and the pages made from it.

Where to look:
    model                      what a version states, as strict models
    facts                      what a finished run brings to its record
    record, groups, fitted_groups, hazards     the record, one module or two for each group of fields
    replay_block               what `sudare verify` computes again from
    files                      data and measurements as they are written
    page, charts, descriptions what is made from the record alone
    private_record             the complete record, for auditors
"""
