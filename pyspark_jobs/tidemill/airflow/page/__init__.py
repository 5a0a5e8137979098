"""The pages in Airflow: all pipelines, and the report of one."""

PAGE_NAME, TAB_NAME, SUMMARY_NAME = "Tidemill", "Tidemill pipeline", "Tidemill summary"
"""The names under which Airflow finds the components in the bundle."""
