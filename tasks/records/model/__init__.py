"""What a version states, as strict models."""
