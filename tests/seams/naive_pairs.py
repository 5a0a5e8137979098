"""What `pairs.Pairs` should do, as a dict of lists: so simple that it cannot be wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

SIDES = ("left", "right")


class NaivePairs:
    """Rows are (key, time in seconds, value). `delays` are those of the watermarks, by side, in seconds."""

    def __init__(self, waits: int, **delays: int) -> None:
        self.waits, self.delays = waits, delays
        self.watermarks = dict.fromkeys(SIDES, 0)
        self.waiting = {side: defaultdict(list) for side in SIDES}
        self.late = dict.fromkeys(SIDES, 0)

    def batch(self, **rows: Sequence[tuple[str, int, object]]) -> list[tuple[str, str, int]]:
        """Return what a batch emits: pairs, then left rows that have waited too long."""
        made = []
        for side, other in zip(SIDES, reversed(SIDES), strict=True):
            for key, at, value in rows[side]:
                if at <= self.watermarks[side]:
                    self.late[side] += 1
                elif self.waiting[other][key]:
                    then, found = self.waiting[other][key].pop(0)
                    left, right = (found, value) if side == "right" else (value, found)
                    made.append((key, f"{left}-{right}", max(at, then)))
                else:
                    self.waiting[side][key].append((at, value))
        for side in SIDES:
            newest = max((at for _, at, _ in rows[side]), default=0)
            self.watermarks[side] = max(self.watermarks[side], newest - self.delays[side])
        return made + self._time_out(min(self.watermarks.values()))

    def _time_out(self, now: int) -> list[tuple[str, str, int]]:
        made = []
        for side in SIDES:
            for key, found in self.waiting[side].items():
                gone = [one for one in found if one[0] + self.waits <= now]
                found[:] = [one for one in found if one not in gone]
                made += [(key, f"{value} alone", at) for at, value in gone if side == "left"]
        return made

    @property
    def left_waiting(self) -> int:
        """How many rows of both sides wait."""
        return sum(len(found) for side in SIDES for found in self.waiting[side].values())
