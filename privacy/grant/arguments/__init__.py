"""What a grant lets in, a file for each kind of query; nothing here draws."""
