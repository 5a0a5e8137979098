"""Upkeep of a repository: checks of everything that it holds."""
