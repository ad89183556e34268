"""Adapters: each speaks to one thing outside, behind a port. They are strangers to one another."""
