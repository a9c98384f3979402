"""Signing keys in a token or a service, asking witnesses for cosignatures, and being a witness."""
