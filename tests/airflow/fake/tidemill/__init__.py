"""A stand-in for the command line that honours its contract: put its folder on a child's PYTHONPATH."""
