"""The plan of a tables release: what is measured, how it shares the charge, and how far down it is listed."""
