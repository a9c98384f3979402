"""How each kind of draw is published with what is fitted to it: its statement, its files and its words."""
