"""The demo's pipeline as two DAGs: `flights` every five minutes, `flights__sweep` every quarter of an hour.

They go on where `tidemill demo` stopped; try `tidemill demo --days 60 --max-batches 4` before. TIDEMILL_DEMO names its
folder, by default `tidemill-demo` beside the folder of this file. TIDEMILL_EXAMPLES: where `flights.py` lies, by
default `examples` there. TIDEMILL_ROOT: another root than the demo's; run `tidemill init` on it first.
"""

import os
from pathlib import Path

from tidemill.airflow import tidemill_dags

HERE = Path(__file__).resolve().parent.parent
DEMO = os.environ.get("TIDEMILL_DEMO") or str(HERE / "tidemill-demo")

tidemill_dags(
    f"{os.environ.get('TIDEMILL_EXAMPLES') or HERE / 'examples'}/flights.py:p",
    root=os.environ.get("TIDEMILL_ROOT") or f"{DEMO}/repository",
    schedule="*/5 * * * *",
    env={"TIDEMILL_DEMO": DEMO},
)
