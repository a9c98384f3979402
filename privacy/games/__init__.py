"""Empirical privacy tests: an attacker's success, and the least epsilon that it proves.

Pure statistics over scores; which mechanism made the scores is known to `benchmarks.games` alone. A bound that stays
below the claim proves nothing but that this attack found nothing.
"""
