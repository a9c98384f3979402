"""Advice on contracts that load: what is allowed, and probably not what was meant."""
