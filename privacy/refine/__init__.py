"""Post-processing of noisy counts: no function here reads private data, and none costs anything."""
