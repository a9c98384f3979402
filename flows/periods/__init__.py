"""Which periods are due, published, charged or over."""
