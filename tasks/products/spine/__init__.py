"""Counts by place: how they are planned, drawn, written and checked."""
