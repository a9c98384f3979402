"""What a stranger recomputes of a version, by code that shares nothing with what made it; and, in `games`, attacks.

Where to look, by rule of `sudare verify` (docs/verify.md):
    statements, synthetic_statements, journal_statements, readable   what the files state, read with limits
    inclusion                                                        4: is the run in the journal?
    identity, synthetic, mechanism, rule, told, told_errors,
    learnable, sealed                                                5: is the record about it, do its fields say so?
    drawn, sums, trainings, budget                                   6: was what was drawn what was charged?
    charged, claimed, recompute, decimal_curves, event_forms         7: does the claim follow from the events?
    replay, listed                                                   8, 9: what follows from the noisy values alone
    held                                                             9: do rows keep what the contract declares?
    games                                                            attacks (docs/privacy_tests.md)
"""
