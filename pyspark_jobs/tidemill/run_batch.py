"""The file to pass to `spark-submit`: `spark-submit … run_batch.py PIPELINE --root URI [options]`.

The arguments are those of `tidemill run`. Batches run on the Spark session that
spark-submit creates, unless --engine says otherwise. Exit status: 0 done or
nothing to do, 1 failed, 2 usage error, 4 fenced (another run is committing to this pipeline), 130 interrupted. A run
that finds nothing to do ends with 0, not with 3 as `tidemill run` does, because spark-submit, YARN, EMR and Databricks
report every other status as a failure.

`--result-file PATH` (a file or s3://bucket/name) says what happened. It contains one JSON object, written completely:
`event` "result" with `status` ("done" or "nothing"), `versions`, `already_committed`, `published` and `head`, or
`event` "error" with `kind`, `message` and `versions` (those committed before the failure). A run that was killed leaves
no file.

INVARIANT: this file removes its own folder from `sys.path` before it imports Tidemill, because modules of that folder
(`names`, `schema`, …) would hide modules of the user with the same names.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    from tidemill.cli.exits import Exit
    from tidemill.cli.main import main

    status = main(["run", "--engine", "spark", *sys.argv[1:]])
    sys.exit(Exit.DONE if status == Exit.NOTHING else status)
