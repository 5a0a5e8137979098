"""Simulate how many rows the rule for merging runs writes over thousands of batches. It uses no state and no files.

    .venv/bin/python benchmarks/tiers.py [--batches 10000]

Keys are uniform, so u updates change k · (1 − exp(−u/k)) of k keys. Each size is printed twice: with the rule of
`docs/decisions/0003-tiers.md`, which treats the base like any other run, and with the base kept out of merges. The
second table shows the cost of merging in parts, which that record decided against. The third table has the rule of
`docs/decisions/0012-bases.md`: batches merge cheap layers, and the others are merged outside of batches.
"""

from __future__ import annotations

import argparse
import math
import statistics
from dataclasses import dataclass, field

from tidemill._native import merge_count
from tidemill.state import layers
from tidemill.upkeep import merge_choice

SIZES = ((10_000_000, 10_000), (10_000_000, 1_000), (1_000_000, 10_000), (100_000, 1_000))


@dataclass
class Played:
    """A state of `keys` keys after batches of `batch` updates each, without maintenance."""

    keys: int
    batch: int
    keeps_base_out: bool
    updates: list[float] = field(default_factory=list)
    """The number of updates in each run above the base."""
    written: float = 0
    most_written: float = 0
    most_over_base: float = 0
    most_runs: int = 1
    merges_of_base: int = 0

    def rows(self, updates: float) -> float:
        """Return how many keys this many updates change."""
        return self.keys * -math.expm1(-updates / self.keys)

    def play(self) -> None:
        """Add one batch."""
        above = [*self.updates, float(self.batch)]
        rows = [int(self.rows(updates)) for updates in above]
        merged = merge_count(rows if self.keeps_base_out else [self.keys, *rows])
        if merged > len(above):
            self.updates, written = [], float(self.keys)
            self.merges_of_base += 1
        else:
            self.updates = [*above[:-merged], sum(above[-merged:])]
            written = self.rows(self.updates[-1])
        self.written += written
        self.most_written = max(self.most_written, written)
        self.most_runs = max(self.most_runs, 1 + len(self.updates))
        self.most_over_base = max(self.most_over_base, sum(self.rows(updates) for updates in self.updates))


@dataclass
class WithBases(Played):
    """A state whose batches leave large layers to merges outside of them, every `every` batches; 0: never."""

    every: int = 0
    outside: float = 0
    """Rows written outside of batches."""

    def play_number(self, number: int) -> None:
        """Add one batch, after a merge outside of batches if it is due."""
        if self.every and number and number % self.every == 0:
            self._merge()
        rows = self._rows()
        merged = layers._layers_to_merge(rows, self.batch)
        self._join(merged - 1, self.batch)
        written = self.rows(self.updates[-1]) if self.updates else float(self.keys)
        self.written += written
        self.most_written = max(self.most_written, written)
        self.most_runs = max(self.most_runs, 1 + len(self.updates))

    def _rows(self) -> list[int]:
        return [self.keys, *(int(self.rows(updates)) for updates in self.updates)]

    def _merge(self) -> None:
        rows = self._rows()
        merged = len(rows) - merge_choice._first_layer(rows, merge_choice.RULE)
        if merged > 1:
            self._join(merged, 0)
            self.outside += self.rows(self.updates[-1]) if self.updates else self.keys

    def _join(self, merged: int, more: int) -> None:
        """Merge the newest layers, and `more` updates, into one."""
        if merged > len(self.updates):
            self.updates = []
        else:
            kept = len(self.updates) - merged
            self.updates = [*self.updates[:kept], sum(self.updates[kept:]) + more]


def show_with_bases(batches: int) -> None:
    """Print the cost of batches of 10,000 rows into 10 M keys."""
    for every in (0, 50, 288):
        played = WithBases(10_000_000, 10_000, False, every=every)
        for number in range(batches):
            played.play_number(number)
        changed = played.batch * batches
        cells = [every or "never", f"{played.written / changed:.1f}", f"{played.outside / changed:.1f}"]
        cells += [f"{played.most_written / 1e6:.2f}", played.most_runs]
        print(" ".join(f"{cell:>14}" for cell in cells), flush=True)


FAN_IN = 6
CELLS = FAN_IN**3
FIXED_MS, MS_A_ROW = 1.5, 80e-6
"""The time of a batch of 10,000 rows in the core without its writes, and the time to merge and write one row.

Measured by `state_core.py --only tiers`."""


@dataclass
class InParts:
    """Merging in parts: six runs of a level become one run of the next, one part of the hash space in each batch.

    Each level has its own clock: a part is merged once in as many batches as a run of the next level holds. Keys do not
    repeat. The merged rows of a batch and its changes form one object. The base is never merged.
    """

    batch: int
    cells: list[list[list[int]]] = field(default_factory=lambda: [[] for _ in range(CELLS)])
    """For each part of the hash space and each level: the batches whose objects show the part, oldest first."""

    def play(self, number: int) -> float:
        """Add one batch; return the number of rows that it writes."""
        written = float(self.batch)
        for cell in self.cells:
            if not cell:
                cell.append([])
            cell[0].append(number)
        for level in range(len(max(self.cells, key=len))):
            period = FAN_IN ** (level + 1)
            turn = number % period
            for cell in self.cells[turn * CELLS // period : (turn + 1) * CELLS // period]:
                if len(cell) > level and len(cell[level]) >= FAN_IN:
                    del cell[level][:FAN_IN]
                    if len(cell) == level + 1:
                        cell.append([])
                    cell[level + 1].append(number)
                    written += self.batch * period / CELLS
        return written

    def seen(self) -> tuple[int, float, int, int]:
        """Return the deepest look-up, the mean depth, the live objects, and the ranges of them that a commit lists."""
        shown = [[number for level in cell for number in level] for cell in self.cells]
        begins = sum(len(set(now) - set(before)) for before, now in zip([[], *shown], shown, strict=False))
        depths = [1 + len(cell) for cell in shown]
        return max(depths), sum(depths) / CELLS, len({one for cell in shown for one in cell}), begins


def show_in_parts(batch: int, batches: int) -> None:
    """Print the cost of merging in parts over `batches` batches."""
    played = InParts(batch)
    written, seen = [], []
    for number in range(batches):
        written.append(played.play(number))
        seen.append(played.seen())
    times = [FIXED_MS + rows * MS_A_ROW for rows in written]
    deepest, mean, objects, ranges = (max(one) for one in zip(*seen, strict=True))
    cells = (batches, f"{sum(written) / batch / batches:.1f}", f"{max(times) / statistics.median(times):.2f}")
    print(" ".join(f"{cell:>14}" for cell in (*cells, deepest, f"{mean:.1f}", objects, ranges)), flush=True)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=10_000, help="batches of the first table")
    given = parser.parse_args()
    print(f"{given.batches:,} batches; rows in millions")
    columns = ("keys", "rows a batch", "base", "written a changed row", "most in a batch", "over the base", "runs")
    print(" ".join(f"{column:>14}" for column in columns))
    for keys, batch in SIZES:
        for keeps_base_out in (False, True):
            played = Played(keys, batch, keeps_base_out)
            for _ in range(given.batches):
                played.play()
            base = "kept out" if keeps_base_out else f"{played.merges_of_base} merges"
            cells = [f"{keys:,}", f"{batch:,}", base, f"{played.written / batch / given.batches:.1f}"]
            cells += [f"{rows / 1e6:.2f}" for rows in (played.most_written, played.most_over_base)]
            print(" ".join(f"{cell:>14}" for cell in [*cells, str(played.most_runs)]))
    print("\nmerging in parts, 10,000 rows a batch, the base not merged; greatest values, except for written rows")
    columns = ("batches", "written a row", "slowest/median", "deepest", "mean depth", "live objects", "ranges")
    print(" ".join(f"{column:>14}" for column in columns))
    for batches in (200, 2000):
        show_in_parts(10_000, batches)
    print("\nlarge layers merged outside of batches, 10,000 rows a batch into 10 M keys; rows in millions")
    columns = ("merged every", "in batches", "outside", "most in a batch", "runs")
    print(" ".join(f"{column:>14}" for column in columns))
    show_with_bases(given.batches)


if __name__ == "__main__":
    main()
