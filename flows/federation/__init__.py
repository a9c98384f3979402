"""Federated runs: the coordinator and a site."""
