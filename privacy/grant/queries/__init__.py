"""How each kind of query is counted and drawn."""
