"""What may be asked of a grant, a file for each kind: free values, which nothing here draws."""
