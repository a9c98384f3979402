"""Record, review site, studio and private pages in Japanese."""
