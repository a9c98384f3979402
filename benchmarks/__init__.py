"""Measured comparisons with the papers and the peers: `python -m benchmarks.<name>`."""
