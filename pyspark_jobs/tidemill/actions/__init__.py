"""Changes of a repository as values: a file for each, with its options, what it would do, and what it writes."""
