"""The workspace: its settings, keys, run folders and registers."""
