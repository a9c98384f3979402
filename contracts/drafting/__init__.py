"""Drafts of contracts, made from what people have already: an ODCS file, a dbt `schema.yml`, the schema of a table.

Nothing here reads rows, and nothing decides: whatever a person has to declare becomes a placeholder.
"""
