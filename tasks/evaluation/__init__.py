"""Training on made-up rows and testing on real ones."""
