"""Runs under Prefect: its server, deployments, workers, and runs that were lost."""
