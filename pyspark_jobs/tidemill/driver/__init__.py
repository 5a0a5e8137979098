"""The driver's part of a batch: plan, execute, commit, publish, report. It does not know Spark: it gets an engine."""
