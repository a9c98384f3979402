"""How each kind of query is counted and drawn; the grant alone imports it."""
