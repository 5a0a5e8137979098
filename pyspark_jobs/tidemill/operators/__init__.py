"""Keyed operators, one file each: declarations, checks and schemas. The Rust engine processes the rows."""
