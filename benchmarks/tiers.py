"""What the rule for merging runs writes over thousands of batches, by counting rows alone: no state, no files.

    .venv/bin/python benchmarks/tiers.py [--batches 10000]

Keys are uniform, so of k keys, u updates change k · (1 − exp(−u/k)). Each size is printed twice: with the rule of
`docs/decisions/0003-tiers.md`, for which the base is a run like the others, and with the base kept out of it.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field

from tidemill._native import merge_count

SIZES = ((10_000_000, 10_000), (10_000_000, 1_000), (1_000_000, 10_000), (100_000, 1_000))


@dataclass
class Played:
    """A state of so many keys after batches of so many updates, none of them maintained."""

    keys: int
    batch: int
    keeps_base_out: bool
    updates: list[float] = field(default_factory=list)
    """Of each run above the base, how many updates it holds."""
    written: float = 0
    most_written: float = 0
    most_over_base: float = 0
    most_runs: int = 1
    merges_of_base: int = 0

    def rows(self, updates: float) -> float:
        """The keys that so many updates change."""
        return self.keys * -math.expm1(-updates / self.keys)

    def play(self) -> None:
        """One batch more."""
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


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=10_000)
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


if __name__ == "__main__":
    main()
