"""Corrections as values: a file for each, with its options, what it would do, and what its commit changes."""
