"""Upkeep: merging, joining of published files, retention, and deletion of what no kept version names."""
