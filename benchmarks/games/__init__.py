"""What `benchmarks.privacy_games` attacks, each with a broken twin, and the statistics of its games."""
