"""The demo: a year of real flights from New York, split into daily files, run as batches, and what is told at the end.

`data` makes the files, `flights` is the pipeline (also `examples/flights.py`), `tell` says what came of it. How the
run itself is shown is the command line's (`cli/demo.py`).
"""
