"""Statistics: how they are planned, drawn, written and checked."""
