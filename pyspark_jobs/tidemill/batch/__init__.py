"""One batch as work for any engine: `scatter` reads and sends rows, `apply` folds and stores them. No Spark here."""
