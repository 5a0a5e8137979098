"""One small pipeline and most commands on it: what each prints for machines, and what it leaves in storage.

Only keys and types of JSON objects are kept: no values, and no names that differ from run to run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

CODE = """
import tidemill as tm

def spend(batchTime, key, row, state):
    if state.isTimingOut:
        return (key, -1)
    if row.v < 0:
        raise ValueError("negative")
    state.update((state.getOption or 0) + row.v)
    return (key, state.get)

p = tm.Pipeline("shop")
p.batch_time(lambda plan: 1_700_000_000_000 + 60_000 * plan.number)
rows = p.read(
    tm.Files("IN", format="csv", header=True, schema="k string, v int, ts timestamp", mode="PERMISSIVE",
             badFiles="quarantine", maxFilesPerTrigger=1)
).withWatermark("ts", "1 minute", late="quarantine")
rows.groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="totals").write(tm.Parquet("OUT"), name="published")
rows.groupBy("k").mapWithState(
    tm.StateSpec.function(spend).timeout("10 minutes"), name="spend", stateSchema="int",
    outputSchema="k string, v int", on_error="quarantine",
)
"""
FILES = {
    "0.csv": "k,v,ts\na,1,2023-11-14 22:00:00\nb,2,2023-11-14 22:01:00\n",
    "1.csv": "k,v,ts\na,much,2023-11-14 22:02:00\nc,-1,2023-11-14 22:03:00\nb,3,2023-11-14 22:13:00\n",
    "2.csv": "k,v,ts\nlate,1,2023-11-14 20:00:00\na,5,2023-11-14 22:13:10\n",
    "3.csv": "another,header\n1,2\n",
    "4.csv": "k,v,ts\nd,1,2023-11-14 22:13:20\n",
}
COMMANDS = """
init PIPELINE
check PIPELINE
run PIPELINE --engine local --max-batches 4
status PIPELINE
log PIPELINE
state PIPELINE --operator totals
outputs PIPELINE --sink published
quarantine PIPELINE
explain PIPELINE
explain PIPELINE --operator spend --key a
history PIPELINE --operator totals --key a
changes PIPELINE totals 0..2
diff PIPELINE 0 2
tag PIPELINE good 2
tag PIPELINE
branch PIPELINE trial --at 1
branches PIPELINE
untag PIPELINE good
requeue PIPELINE --version 1 --reason again --yes
requeue PIPELINE --version 3 --reason corrected --dry-run
requeue PIPELINE --version 3 --reason corrected --yes
run PIPELINE --engine local
skip PIPELINE 5.csv --reason ours --dry-run
skip PIPELINE 5.csv --reason ours --yes
rewind PIPELINE --to 3 --reason back --dry-run
rewind PIPELINE --to 3 --reason back --yes
run PIPELINE --engine local
replay PIPELINE --from 0 --into again --engine local
replay PIPELINE --from 0 --into again --files current --engine local
diff PIPELINE main again
promote PIPELINE again --reason better --dry-run
promote PIPELINE again --reason better --yes
reset PIPELINE --batch-time 2023-11-14T22:40:00Z --reason clock --dry-run
reset PIPELINE --batch-time 2023-11-14T22:40:00Z --reason clock --yes
sweep PIPELINE --engine local
forget PIPELINE --operator totals --key a --reason asked --drop-refs --dry-run
forget PIPELINE --operator totals --key a --reason asked --drop-refs --yes
maintain PIPELINE --compact-sinks --keep-versions 5 --reason tidy --dry-run
maintain PIPELINE --compact-sinks --keep-versions 5 --reason tidy --yes
publish PIPELINE
verify PIPELINE --deep
schema FIRST --header
"""


def run(folder: Path) -> tuple[str, str]:
    """Run all commands in a new folder. Return what they print, and what is in storage at the end."""
    source = folder / "in"
    source.mkdir()
    for name, text in FILES.items():
        (source / name).write_text(text)
    code = folder / "shop_pipeline.py"
    code.write_text(CODE.replace("IN", str(source)).replace("OUT", str(folder / "out")))
    printed = []
    for line in COMMANDS.split("\n")[1:-1]:
        if line.startswith("requeue PIPELINE --version 3"):
            (source / "3.csv").write_text("k,v,ts\nf,1,2023-11-14 22:14:00\n")
        if line.startswith("skip"):
            (source / "5.csv").write_text("k,v,ts\n")
        arguments = line.replace("PIPELINE", f"{code}:p").replace("FIRST", str(source / "0.csv")).split()
        if arguments[0] != "schema":
            arguments += ["--root", str(folder / "root")]
        status, out = call([*arguments, "--json"])
        printed.append(f"$ tidemill {line}\nexit {status}\n{shapes(out)}")
    return "\n".join(printed), stored(folder / "root") + stored(folder / "out")


def call(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its status and what it wrote to the file descriptor of stdout.

    An earlier test may have left the variables of an Airflow task, which commits record.
    """
    from tidemill.cli.main import main

    sys.stdout.flush()
    kept = os.dup(1)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_CTX_", "TIDEMILL_"))}
    with (
        tempfile.TemporaryFile() as out,
        contextlib.redirect_stderr(io.StringIO()),
        mock.patch.dict(os.environ, own, clear=True),
    ):
        os.dup2(out.fileno(), 1)
        try:
            with os.fdopen(os.dup(1), "w") as text, contextlib.redirect_stdout(text):
                status = main(arguments)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        out.seek(0)
        return int(status), out.read().decode()


def shapes(printed: str) -> str:
    """The keys and types of JSON lines, each kind of line once."""
    found: dict[str, None] = {}
    for line in printed.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            found["(no JSON)"] = None
            continue
        event = value.get("event", "") if isinstance(value, dict) else ""
        found["\n".join([f"  {event}", *(f"    {one}" for one in sorted(set(paths(value))))])] = None
    return "\n".join(found) + "\n"


def paths(value: Any, at: str = "") -> Iterator[str]:
    """The paths of a value with the types at their ends."""
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from paths(one, f"{at}.{plain(name)}" if at else plain(name))
    elif isinstance(value, list) and value:
        for one in value:
            yield from paths(one, f"{at}[]")
    else:
        yield f"{at}: {type(value).__name__}"


def stored(folder: Path) -> str:
    """The names of all objects below a folder, and the keys and types of those that are JSON."""
    names: dict[str, set[str]] = {}
    for base, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            path = Path(base) / name
            shown = plain(str(path.relative_to(folder.parent)))
            known = names.setdefault(shown, set())
            if path.suffix == ".json" or path.read_bytes()[:1] == b"{":
                with contextlib.suppress(ValueError):
                    known.update(paths(json.loads(path.read_bytes())))
    return "".join(f"{name}\n" + "".join(f"    {one}\n" for one in sorted(found)) for name, found in names.items())


def plain(name: str) -> str:
    """A name without what is different in each run: identifiers, hashes, times, numbers."""
    name = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>", name)
    return re.sub(r"(?<![a-z])(?=[0-9a-f]*\d)[0-9a-f]{6,}", "<id>", name)
