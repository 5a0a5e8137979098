"""A run: plan, execute, commit and publish batches until nothing waits. It does not know Spark: it gets an engine."""
