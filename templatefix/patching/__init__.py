"""Repair: the smallest change of a template that is proven to work."""
