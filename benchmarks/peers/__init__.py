"""Scripts that the environments of the peers run; they import nothing of ours."""
