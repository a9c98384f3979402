"""What verify asks of noisy tables."""
