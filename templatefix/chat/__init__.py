"""Conversations, and how a server presents them to a template."""
