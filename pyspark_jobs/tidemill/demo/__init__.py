"""The demo: a year of real flights from New York, split into daily files, run as batches, and summarised.

`data` writes the files, `flights` is the pipeline (also `examples/flights.py`), `report` queries the result. The
command line prints it (`cli/demo.py`).
"""
