"""Kinds of product: how each is planned, made, and checked."""
