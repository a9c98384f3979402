"""Two versions of a contract, compared by what they mean."""
