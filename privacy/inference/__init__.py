"""Inference from released noisy values: estimates whose intervals hold the noise. Post-processing."""
