"""How the sites of a federation draw their shares."""
