"""Every object of a repository is damaged in every way; the next run recovers or refuses, and never gives wrong rows.

The ways: flip a bit, cut, append, empty, delete, swap with another object of its kind, replace by an older one, or by
that of another repository, of another branch, or of a copy of this repository that was run further with other input. A
table of counts is printed. Unless `TIDEMILL_EXHAUSTIVE` is set, a random sample of the damages is tried.
`TIDEMILL_DAMAGE_FLIPS` sets the number of bits that are flipped in each object.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import zlib
from collections import Counter
from pathlib import Path

import pytest

from tests.crash import damage, worlds
from tests.crash.damage import Damage, Verdict
from tests.crash.worlds import BEFORE, MORE, Place, Snapshot
from tests.exhaustive import some

FLIPS = int(os.environ.get("TIDEMILL_DAMAGE_FLIPS", "1"))
SAMPLE = 20
MANY = {"memory": 15, "folder": 8}
"""How many damages a slow test tries. A folder gets fewer: objects are read in the same way from every store."""


def copied_and_run_further(world: Place, early: Snapshot, phase: str) -> Snapshot:
    """The same repository, from its second version on with other input."""
    world.load(early)
    other = world.inbox / f"{MORE - 1:04d}5.json"
    worlds.make_file(other, random.Random(9), 3 * MORE)
    try:
        for _ in range(BEFORE - MORE):
            world.run(1)
        worlds.PHASES[phase](world)
        return world.save()
    finally:
        other.unlink()


def of_another_branch(world: Place, early: Snapshot, phase: str) -> Snapshot:
    """Objects that another branch made under the same numbers, from the second version on, under the names of `main`.

    They are the records of the copy that was run further, written again with the branch's id and with right checksums.
    """
    further = copied_and_run_further(world, early, phase)
    found: Snapshot = {}
    for name, (data, time_ns) in further.items():
        if name.endswith(".json") and "/branches/" in name and not name.endswith("head.json"):
            record = json.loads(data)
            del record["checksum"]
            body = json.dumps(record | {"branch": "fix-2"}).encode()[:-1]
            data = body + f',"checksum":"{hashlib.blake2b(body, digest_size=16).hexdigest()}"}}'.encode()
            found[name] = (data, time_ns)
    return found


def snapshots(world: Place, phase: str, tmp_path: Path) -> tuple[Snapshot, dict[str, Snapshot]]:
    """The snapshot that is damaged, and those with which its objects are replaced."""
    world.begin_with_one_operator()
    early = world.save()
    for _ in range(BEFORE - MORE):
        world.run(1)
    worlds.PHASES[phase](world)
    ours = world.save()
    elsewhere = Place(tmp_path / "other", f"{world.base}-other")
    worlds.make_inbox(elsewhere.inbox, seed=11)
    elsewhere.begin()
    worlds.PHASES[phase](elsewhere)
    others = {
        "other repository": elsewhere.save(),
        "copy run further": copied_and_run_further(world, early, phase),
        "other branch": of_another_branch(world, early, phase),
    }
    return ours, others


def campaign(world: Place, phase: str, tmp_path: Path, most: int) -> list[tuple[Damage, Verdict]]:
    """Damage, run and judge: all, or a random sample of that size."""
    ours, others = snapshots(world, phase, tmp_path)
    expected = damage.expect(world, ours)
    assert expected.head_before == BEFORE - (phase != "unpublished")
    every = list(damage.damages(ours, others, FLIPS, seed=zlib.crc32(phase.encode())))
    found: list[tuple[Damage, Verdict]] = []
    for one in some(every, most):
        damage.apply(world, ours, one)
        found.append((one, damage.run_and_judge(world, expected, one.names, world.run)))
    return found


def table(found: list[tuple[Damage, Verdict]]) -> str:
    """Counts of `recovered / refused / WRONG` by kind of object and way of damage."""
    ways = list(dict.fromkeys(one.way for one, _ in found))
    counts = Counter((one.kind, one.way, verdict.word) for one, verdict in found)
    lines = ["".join(f"{cell:>18}" for cell in ("recovered/refused/WRONG", *ways))]
    for kind in dict.fromkeys(one.kind for one, _ in found):
        cells = ["/".join(str(counts[kind, way, word]) for word in ("recovered", "refused", "WRONG")) for way in ways]
        lines.append(f"{kind:>23}" + "".join(f"{cell:>18}" for cell in cells))
    total = Counter(verdict.word for _, verdict in found)
    return "\n".join([*lines, f"total: {dict(total)}"])


def report(found: list[tuple[Damage, Verdict]]) -> str:
    return "\n".join(f"{one.way} {one.names}: {verdict.why}" for one, verdict in found if verdict.word == "WRONG")


@pytest.mark.slow("damage every object in every way")
@pytest.mark.parametrize("phase", list(worlds.PHASES))
@pytest.mark.parametrize("kind", list(worlds.WORLDS))
def test_a_damaged_object_is_harmless_or_refused_by_name(
    kind: str, phase: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = campaign(worlds.WORLDS[kind](tmp_path), phase, tmp_path, MANY[kind])
    with capsys.disabled():
        print(f"\n{kind}, {phase}, {len(found)} damages\n{table(found)}")
    assert not report(found), report(found)


@pytest.mark.parametrize("phase", list(worlds.PHASES))
def test_a_sample_of_damaged_objects_is_harmless_or_refused_by_name(phase: str, tmp_path: Path) -> None:
    found = campaign(worlds.memory_world(tmp_path), phase, tmp_path, SAMPLE)
    assert not report(found), report(found)
