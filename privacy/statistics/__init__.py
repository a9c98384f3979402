"""Sums, means and counts per cell from noisy sums: post-processing, which reads no private data and costs nothing."""
