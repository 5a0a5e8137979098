"""Keyed operators: one file each. What they do to a row is done in Rust; here are declarations, checks and schemas."""
