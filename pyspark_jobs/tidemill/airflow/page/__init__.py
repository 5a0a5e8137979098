"""The pages in Airflow: all pipelines, and the report of one."""

PAGE, TAB, SUMMARY = "Tidemill", "Tidemill pipeline", "Tidemill summary"
"""The names under which Airflow finds the components in the bundle."""
