"""Tidemill: stateful stream processing as a series of ordinary batch runs."""
