"""What a record says of counts by place, and their files."""
