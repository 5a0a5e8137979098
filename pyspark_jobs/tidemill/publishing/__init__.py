"""Committed outputs in the places of sinks: published, withdrawn, shown again, and whose they are."""
