"""The contract's checks, run on a snapshot."""
