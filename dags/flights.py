"""The demo pipeline as two DAGs: `flights` every five minutes, `flights__sweep` every quarter of an hour.

TIDEMILL_EXAMPLES: the folder that holds `flights.py`; by default `examples` beside the folder of this file.
TIDEMILL_ROOT: where repositories lie; by default `tidemill` in the home folder of whoever runs the worker.
Run `tidemill init` once before the first run.
"""

import os
from pathlib import Path

from tidemill.airflow import tidemill_dags

tidemill_dags(
    f"{os.environ.get('TIDEMILL_EXAMPLES') or '../examples'}/flights.py:p",
    root=os.environ.get("TIDEMILL_ROOT") or (Path.home() / "tidemill").as_uri(),
    schedule="*/5 * * * *",
)
