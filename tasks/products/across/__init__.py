"""Releases across sites: how any kind of product is made of sums over sites, and checked."""
