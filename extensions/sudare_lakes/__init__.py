"""Delta and Iceberg tables and objects of S3-compatible stores: where rows come from, and copies of versions go."""
