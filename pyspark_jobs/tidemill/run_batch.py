"""The one file that `spark-submit` is given: `spark-submit … run_batch.py PIPELINE --root URI [options]`.

Arguments are those of `tidemill run`; the Spark session is the one that spark-submit makes. Exit status: 0 done,
1 failed, 2 usage, 3 nothing to do, 4 somebody else commits here, 130 interrupted. Where a cluster manager keeps only
"succeeded" or "failed", read `--result-file PATH` (a file or s3://bucket/name): one JSON object, written whole, with
`event` "result" (`status` "done" or "nothing", `versions`, `already_committed`, `published`, `head`) or "error"
(`kind`, `message`, `versions`: those committed before it failed).

Nothing of Tidemill is imported before the folder of this file has left the path: it holds `names`, `schema`, …, which
must not stand in for modules of the user's.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    from tidemill.cli.main import main

    sys.exit(main(["run", *sys.argv[1:]]))
