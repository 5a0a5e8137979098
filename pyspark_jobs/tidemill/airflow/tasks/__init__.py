"""Operators and sensors: what one task does."""
