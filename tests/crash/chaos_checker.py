"""Replays a log from its records and compares everything with a computation over the input files.

It shares no code with Tidemill: records are JSON, segments and outputs Parquet. It reads a copy in a folder with
`inbox`, `root/chaos` and `sinks`, after a run that found nothing to do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.crash import ledger_model
from tests.crash.ledger_model import Happened, Row
from tests.golden.foreign_reader import Reader

FORGOTTEN = "u6"
"""The user whom `forget` removes; later files have rows of the same name."""
COLUMNS = {"users": ("user", "n", "closed"), "by-n": ("n", "users")}


def check(folder: Path) -> Counter[str]:
    """Raise AssertionError if anything differs. Return how much was compared."""
    reader = Reader(folder / "root/chaos")
    commits = [reader.commit(version) for version in range(reader.head()["version"] + 1)]
    model = ledger_model.versions(list(_happened(folder, commits)), folder / "inbox", FORGOTTEN)
    head = model[-1]
    assert head.done == {file.name for file in (folder / "inbox").iterdir()}, "files of the inbox are not in the ledger"
    floor = max([0, *(one["version"] for one in reader.entries if one["kind"] == "floor")])
    for commit in commits[floor:]:
        naive = model[commit["version"] + 1]
        users = {row["user"]: row["state"] for row in reader.state(commit, "users", "state")}
        assert users == {name: total for name, (total, _) in naive.users.items()}, commit["version"]
        by_n = {row["n"]: row["users"] for row in reader.state(commit, "by-n", "partials")}
        assert by_n == naive.by_n, commit["version"]
    rows = 0
    is_copy = any(one["uuid"] != reader.entries[0]["uuid"] for one in reader.entries)
    for sink, expected_rows in head.rows.items():
        found, expected = _published(folder / "sinks" / sink, COLUMNS[sink]), expected_rows
        if is_copy and sink == "users":  # its `forget` leaves, and names, the files of the original
            found, expected = (tuple(row for row in those if row[1] != FORGOTTEN) for those in (found, expected))
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), f"sink {sink}"
        rows += len(found)
    compared = Counter(f"commits: {commit['kind']}" for commit in commits)
    compared.update({"states compared": 2 * len(commits[floor:]), "files": len(head.done), "published rows": rows})
    return compared


def _happened(folder: Path, commits: list[dict[str, Any]]) -> Iterator[Happened]:
    for commit in commits:
        files: tuple[str, ...] = ()
        if commit["kind"] in ("batch", "sweep"):
            plan = json.loads((folder / f"root/chaos/branches/main/plans/{commit['version']:010d}.json").read_bytes())
            assert plan["plan_id"] == commit["plan_id"], f"commit {commit['version']} is of another plan"
            files = tuple(split["path"] for split in plan["splits"])
        restores = (commit.get("restores") or {}).get("version", -1)
        skipped = tuple(one["path"] for one in commit.get("skipped", []))
        yield Happened(commit["version"], commit["kind"], commit["batch_time_ms"], files, skipped, restores)


def _published(folder: Path, columns: tuple[str, ...]) -> tuple[Row, ...]:
    return tuple(_rows(folder, columns))


def _rows(folder: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    for file in sorted(folder.glob("*.*")):
        if file.suffix == ".parquet":
            rows = pq.read_table(file).to_pylist()
        else:
            rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            yield row["_batch_id"], *(row[column] for column in columns)
