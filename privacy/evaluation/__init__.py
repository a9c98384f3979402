"""How close made-up rows come to real ones: numbers about private data, which no release holds."""
