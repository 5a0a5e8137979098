"""Checks of everything that a repository holds. Read only."""
