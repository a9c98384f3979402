"""Tables of a PostgreSQL server as sources."""
