"""The audit record: one module or two for each group of fields, and what puts them together.

Where to look:
    record, synthetic, schema, field                    the record as a whole, and what a field is
    origin (A-C), terms (D, E), guarantee, learnable (F), account (G), unprotected, choices (H, I),
    making, sums, synthesis, trainings (J, K), utility (L), audits (M), hazards_*, hazard, limits (N),
    provenance (O), evidence (P, Q), reproducing (R, S)   the groups
    declarations                                        fields that only people can know
    replay, synthetic_replay                            what `sudare verify` computes again from
    auditors                                            the complete record, for auditors
"""
