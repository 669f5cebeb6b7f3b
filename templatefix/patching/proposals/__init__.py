"""What might mend a failure: edits proposed from the evidence, one kind of edit a file."""
