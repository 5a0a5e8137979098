"""The demo's pipeline as DAGs: `flights` every 5 minutes, `flights__sweep` at each deadline, `flights__maintain` once a
day, and two that you trigger, `flights__replay` and `flights__correct`.

They resume where `tidemill demo` stopped, so run `tidemill demo --days 60 --max-batches 4` first. Three environment
variables override the defaults:

- TIDEMILL_DEMO: the demo's folder. Default: `tidemill-demo` beside the folder of this file.
- TIDEMILL_EXAMPLES: the folder of `flights.py`. Default: `examples` beside the folder of this file.
- TIDEMILL_ROOT: a root other than the demo's. Run `tidemill init` on it first.
"""

import os
from pathlib import Path

from tidemill.airflow import Launch, tidemill_dags

HERE = Path(__file__).resolve().parent.parent
DEMO = os.environ.get("TIDEMILL_DEMO") or str(HERE / "tidemill-demo")

tidemill_dags(
    f"{os.environ.get('TIDEMILL_EXAMPLES') or HERE / 'examples'}/flights.py:p",
    root=os.environ.get("TIDEMILL_ROOT") or f"{DEMO}/repository",
    schedule="*/5 * * * *",
    launch=Launch(env={"TIDEMILL_DEMO": DEMO}),
)
