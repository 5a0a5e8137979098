"""The driver's half of a batch: plan, execute, commit, publish, report. Knows no Spark: an engine is handed in."""
