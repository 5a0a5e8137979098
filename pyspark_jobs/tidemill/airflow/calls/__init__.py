"""A call of the command line: options, arguments, the process, its log and outcome. Most of it knows no Airflow."""
