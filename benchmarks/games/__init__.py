"""What `benchmarks.privacy_games` attacks, each with a broken twin; the statistics are in `privacy.games`."""
