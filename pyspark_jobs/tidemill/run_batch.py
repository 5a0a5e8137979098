"""The file to pass to `spark-submit`: `spark-submit … run_batch.py PIPELINE --root URI [options]`.

The arguments are those of `tidemill run`. Batches run on the Spark session that
spark-submit creates, unless --engine says otherwise. `tidemill.submit_args` makes the arguments. Two things are added:

- `--env=NAME=VALUE` sets a variable of this process first, for platforms that pass no environment on. Repeatable. Put
  no secrets there, because others can read arguments.
- An option with an empty value, such as `--max-batches=`, or with the value `None` counts as not given, because a
  template cannot leave it out.

Exit status: 0 done or nothing to do, 1 failed, 2 usage error, 4 fenced (another run is committing), 130
interrupted. A run that finds nothing to do ends with 0, not with 3 as `tidemill run` does, because spark-submit, YARN,
EMR and Databricks report every other status as a failure.

`--result-file PATH` (a file or s3://bucket/name) says what happened. It contains one JSON object, written completely:
`event` "result" with `status` ("done" or "nothing"), `versions`, `already_committed`, `published` and `head`, or
`event` "error" with `kind`, `message` and `versions` (those committed before the failure). Both have `earlier` if
earlier tries of the same Airflow task committed something: these versions. A run that was killed leaves no file.

INVARIANT: in its package, this file removes its own folder from `sys.path` before it imports Tidemill, because modules
of that folder (`names`, `schema`, …) would hide modules of the user with the same names. A copy elsewhere leaves
`sys.path` as it is.
"""

from __future__ import annotations

import os
import re
import sys

_EMPTY = re.compile(r"--[a-z-]+=(None)?")


def without_environment(arguments: list[str]) -> list[str]:
    """Set the variables of `--env`, and return the other arguments without those that are empty."""
    kept = []
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for argument in arguments[:end]:
        if argument.startswith("--env="):
            name, equals, value = argument.removeprefix("--env=").partition("=")
            if not equals or not name:
                sys.stderr.write("Error: --env expects NAME=VALUE\n")
                sys.exit(2)
            os.environ[name] = value
        elif not _EMPTY.fullmatch(argument):
            kept.append(argument)
    return [*kept, *arguments[end:]]


def leave_package() -> None:
    """Remove the folder of this file from `sys.path` if it is the package. Some platforms run it without a file."""
    here = os.path.dirname(os.path.abspath(globals().get("__file__") or "run_batch.py"))
    if os.path.isfile(os.path.join(here, "__init__.py")):
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]


if __name__ == "__main__":
    leave_package()
    from tidemill.cli.main import main
    from tidemill.errors import Exit

    ended = main(["run", "--engine", "spark", *without_environment(sys.argv[1:])])
    # A platform that runs this file inside a notebook may report any SystemExit as a failure.
    if ended not in (Exit.DONE, Exit.NOTHING):
        sys.exit(ended)
