"""What a model would have written, and what a server's parsers make of it."""
