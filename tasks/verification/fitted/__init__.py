"""Models and rows that were fitted: recomputed and compared."""
