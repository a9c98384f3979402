"""The journal replayed: a ledger is what its entries say."""
