"""The repair ladder: one rung a file, each a source of candidates."""
