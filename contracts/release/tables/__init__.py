"""What a spec says of tables: workloads, hierarchies, forms, frequency rules."""
