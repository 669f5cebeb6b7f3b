"""The report as a page that needs nothing else: one file, no network, no script."""
