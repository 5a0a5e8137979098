"""DAGs: which tasks a pipeline gets, in which order, and their forms."""
