"""The encoding by a contract as expressions that several engines compute alike."""
