"""What the console shows of a product, by its kind."""
