"""Lineage of runs while they happen: OpenLineage events to a file or a server, without anything private."""
