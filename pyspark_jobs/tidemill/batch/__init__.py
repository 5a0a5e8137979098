"""One batch as work that any engine can run: `scatter` reads and sends, `apply` folds and writes. Knows no Spark."""
