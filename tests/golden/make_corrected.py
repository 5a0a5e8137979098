"""Makes `format-1-corrected`: a small repository with corrections, a tag, a floor and holds, as files.

Like `make`, it refuses a folder that is there: golden files are never regenerated. `EXPECTED` was computed by hand.
Run in the project's folder: `python -m tests.golden.make_corrected`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pyarrow as pa

import tidemill as tm
from tests.golden.make import ms
from tidemill.pipeline.load import load

FOLDER = Path(__file__).parent / "format-1-corrected"
PLACE = Path("/tmp/tidemill-golden-corrected")
"""Where the repository is made. Its records have the URIs of this place; tests move it."""
TAG = "before-the-bad-file"
EXPECTED = {
    "before-the-bad-file": {"ann": 1, "bob": 5, "dan": 7},
    8: {"ann": 1, "bob": 5, "dan": 7, "eve": 3},
    9: {"ann": 1, "bob": 5, "dan": 7, "eve": 3},
    10: {"ann": 1, "bob": 5, "dan": 7, "eve": 3, "fay": 4},
    11: {"ann": 1, "bob": 5, "dan": 7, "eve": 3, "fay": 4},
    12: {"ann": 3, "bob": 5, "dan": 7, "eve": 3, "fay": 4},
}
"""The totals of the versions that are kept, by number or tag."""
FILES = {
    "01.csv": "ann,1\ncid,9\n",
    "02.csv": "bob,5\n",
    "03.csv": "dan,7\nfay,four\n",
    "04-bad.csv": "ann,1000\n",
    "05.csv": "eve,3\n",
    "06.csv": "ann,2\n",
}
"""Forgotten: cid. Unreadable: the row of fay, which comes back corrected. Undone: the bad file."""


def pipeline(source: str, published: str, name: str) -> tm.Pipeline:
    """Return the pipeline over the given folders, whose operator has this name."""
    p = tm.Pipeline("ledger")
    rows = p.read(
        tm.Files(source, format="csv", schema="who string, cents int", mode="PERMISSIVE", maxFilesPerTrigger=1)
    )
    rows.groupBy("who").agg(total=tm.sum("cents"), name=name).write(tm.Json(published), name="out")
    return p


FIRST_CODE = pipeline("input", "published", "totals")
CODE = pipeline("input", "published", "sums")


def opened(code: str) -> tm.Repository:
    """Return the repository, by the reference of its code."""
    return tm.open(load(f"tests.golden.make_corrected:{code}"), root="root")


def arrive(*names: str) -> None:
    """Put files into the input, with the times at which they arrived."""
    Path("input").mkdir(exist_ok=True)
    for name in names:
        path = Path("input", name)
        path.write_text(FILES[name])
        os.utime(path, ns=(ms("2024-03-01T10:00:00") * 1_000_000,) * 2)


def run(r: tm.Repository) -> None:
    """Run batches with one task, a minute of batch time apart."""
    r.run(engine="local", tasks=1)


def make() -> None:
    """Write the repository, its input and its published files below the working folder."""
    r = opened("FIRST_CODE")
    r.init()
    arrive("01.csv", "02.csv")
    run(r)  # 0, 1
    r.forget("totals", ["cid"], "asked to be forgotten", columns={"out": "who"})  # 2
    arrive("03.csv")
    run(r)  # 3
    r.tag(TAG)
    arrive("04-bad.csv")
    run(r)  # 4
    r.rewind(TAG, "04-bad.csv is wrong", without=["04-bad.csv"])  # 5
    r.rewind(4, "it was right")  # 6
    r.rewind(5, "it was wrong after all")  # 7
    arrive("05.csv")
    run(r)  # 8
    r.requeue(3, rows=_corrected(r), reason="fay paid four")  # 9
    run(r)  # 10
    renamed = opened("CODE")
    renamed.migrate({}, rename={"totals": "sums"}, reason="a better name")  # 11
    arrive("06.csv")
    run(renamed)  # 12
    renamed.maintain(keep_versions=5)


def _corrected(r: tm.Repository) -> object:
    """Return the quarantined row of fay, corrected."""
    rows = r.quarantine(3, export=True)
    for name, values in (("who", pa.array(["fay"])), ("cents", pa.array([4], pa.int32()))):
        at = rows.column_names.index(name)
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows


def main() -> None:
    """Make the folder, unless it exists."""
    if FOLDER.exists():
        raise SystemExit(f"{FOLDER.name} is there: golden files are never regenerated; a new format gets a new folder")
    PLACE.mkdir()
    with contextlib.chdir(PLACE):
        make()
        for name in ("input", "published", "root"):
            shutil.copytree(PLACE / name, FOLDER / name, ignore=shutil.ignore_patterns(".tmp"))
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    main()
