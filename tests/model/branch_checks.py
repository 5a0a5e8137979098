"""Checks after each step of a random game: states, outputs, published rows, quarantine and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow.dataset as ds

import tidemill as tm
from tests.model.branch_game import Game, number_of_head
from tests.model.branch_pipeline import CALLS, cells, plain, state
from tests.model.branches import SINKS, Line


def compare(game: Game) -> str:
    """Differences between any two versions, changes and the history of a key."""
    a, b = (game.lines[game.chance.choice(list(game.lines))] for _ in range(2))
    v, w = (game.chance.randint(-1, line.head.number) for line in (a, b))
    operator = game.chance.choice(["totals", "levels"])
    if not (game.is_kept(a, v) and game.is_kept(b, w)):
        return "nothing"
    before, after = a.versions[v].state[operator], b.versions[w].state[operator]
    found = game.open().diff(f"{a.name}@{v}", f"{b.name}@{w}", operator=operator)
    both = before.keys() & after.keys()
    assert (found.added, found.removed, found.changed) == (
        len(after.keys() - both), len(before.keys() - both), sum(before[key] != after[key] for key in both)
    )  # fmt: skip
    line, floors = a, max((one.floor for one in game.lines.values()), default=0)
    is_there = {step.line for step in line.head.steps} <= {one.id for one in game.lines.values()}
    if floors <= 0 and is_there and line.head.number >= 0:
        key, last, expected = game.chance.choice("wxyz"), None, []
        for step in line.head.steps:  # through promotions
            assert step.recorded is not None
            value = step.recorded.state["totals"].get(key)
            if value != last:
                expected.append((step.number, value))
            last = value
        got = [(one.version, one.value and one.value["total"]) for one in game.open(line.name).history("totals", key)]
        assert got == expected, (line.name, key)
    name = game.any_branch()
    if name is not None and game.lines[name].head.number > game.lines[name].fork.number:
        try:
            report = game.open(code=game.lines[name].code).check(against=name).against
        except tm.InvalidInput as error:
            if "no longer kept" not in str(error):
                raise
            return "not kept"
        of, _, level = report.before.partition("@")
        pair = [game.lines[of].versions[int(level)].state["totals"], game.lines[name].head.state["totals"]]
        assert report.operators["totals"].total == len(
            set(pair[0].items() ^ pair[1].items()) and {k for k, _ in pair[0].items() ^ pair[1].items()}
        )
    return f"{a.name}@{v} {b.name}@{w}"


def check(game: Game) -> None:
    for name, line in game.lines.items():
        r = game.open(name)
        assert number_of_head(r) == line.head.number, name
        numbers = {line.head.number, game.chance.randint(-1, line.head.number)}
        for number in sorted(one for one in numbers if game.is_kept(line, one)):
            assert state(r, number) == plain(line.versions[number]), (name, number)
        if line.head.number >= 0:
            _check_rows(game, r, line)
    _check_published(game)
    main = game.open()
    if game.chance.random() < 0.25:
        assert main.verify(deep=True).problems == []
    waiting = main.status().waiting_files
    missing = Counter(file.source for one, file in game.files.items() if one not in game.lines["main"].head.done)
    assert {name: waiting[name] for name in ("a", "b")} == {name: missing[name] for name in ("a", "b")}


def _check_rows(game: Game, r: tm.Repository, line: Line) -> None:
    since = max((one.floor for one in _ancestors(line)), default=0)
    for sink in SINKS:
        got = sorted(cells(sink, row) for row in r.outputs(sink=sink).to_pylist() if row["_batch_id"] >= 0)
        if since <= 0:
            assert got == line.head.rows(sink), (line.name, sink)
    if since <= 0:
        kinds = Counter((kind,) for kind in r.quarantine()["kind"].to_pylist())
        assert kinds == Counter(line.head.rows("quarantine")), line.name


def _ancestors(line: Line) -> Iterator[Line]:
    at: Line | None = line
    while at is not None:
        yield at
        at = at.parent


def _check_published(game: Game) -> None:
    main = game.lines["main"].head
    for sink in (*SINKS, "more"):
        folder = game.folder / "out" / sink
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("_", "."))]
        kind, partitioning = ("json", None) if sink in ("totals", "levels") else ("parquet", "hive")
        table = (
            ds.dataset([str(one) for one in files], format=kind, partitioning=partitioning).to_table()
            if files
            else None
        )
        rows = [] if table is None else table.to_pylist()
        assert sorted(cells(sink, row) for row in rows) == main.rows(sink), sink
        ids = Counter((row["_batch_id"], row["_seq"]) for row in rows)
        assert max(ids.values(), default=1) == 1, (sink, ids.most_common(3))
    called = sorted(cells("totals", row) for rows in CALLS[str(game.folder)].values() for row in rows)
    assert called == main.rows("totals"), "foreachBatch"
