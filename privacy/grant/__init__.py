"""The door (law 1): a charged run counts or sums, draws its noise once, and keeps what it drew (`grant`)."""
