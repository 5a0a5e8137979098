"""Repositories that were restored from a backup, copied, moved or lost in part, and sinks that were moved.

A run of such a repository ends with the result of an undisturbed run, or is refused. It never publishes rows twice,
never loses rows without an error, and never reads all files again.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tidemill as tm
from tests import exhaustive
from tests.crash import damage, worlds
from tests.crash.damage import Expected
from tests.crash.worlds import BEFORE, MORE, Place, Snapshot

PARTS = ("refs", "branches", "state", "output", "quarantine", "published")
OLDER = MORE + 1
SAMPLE = 25
MANY = {"memory": 25, "folder": 20}
"""How many combinations a slow test tries, of 728. An exhaustive run tries all."""


def in_repository(world: Place, *parts: str) -> tuple[str, ...]:
    return tuple(f"{world.root_name}/{world.name}/{part}/" for part in parts)


def made(world: Place) -> tuple[Snapshot, Snapshot]:
    """A snapshot of an older version and of the newest one."""
    world.begin_with_one_operator()
    for _ in range(OLDER - MORE):
        world.run(1)
    older = world.save()
    for _ in range(BEFORE - OLDER):
        world.run(1)
    return older, world.save()


def mixed(world: Place, newest: Snapshot, older: Snapshot, how: dict[str, str]) -> Snapshot:
    """`newest`, with parts of the repository that are `older` or `gone`."""
    found = dict(newest)
    for part, word in how.items():
        (prefix,) = in_repository(world, part)
        found = {name: data for name, data in found.items() if not name.startswith(prefix)}
        if word == "older":
            found |= {name: data for name, data in older.items() if name.startswith(prefix)}
    return found


def init_and_run(world: Place) -> None:
    world.open().init()
    world.run()


def judge(world: Place, expected: Expected, run: Callable[[], object]) -> damage.Verdict:
    return damage.run_and_judge(world, expected, [], run)


WORDS = itertools.product(("newest", "older", "gone"), repeat=len(PARTS))
FORGOTTEN = dict.fromkeys(("branches", "state", "output", "quarantine", "published"), "gone")
"""Parts without which nothing in the repository shows that it ever had a version. Only the sinks know."""
RESTORES = [{part: word for part, word in zip(PARTS, words, strict=True) if word != "newest"} for words in WORDS][1:]


def restores(world: Place, some: list[dict[str, str]]) -> tuple[str, Counter[str]]:
    older, newest = made(world)
    expected = damage.expect(world, newest)
    wrong, counts = [], Counter()
    for how in some:
        for run in (world.run, lambda: init_and_run(world)):
            world.load(mixed(world, newest, older, how))
            verdict = forgotten(world, run) if FORGOTTEN.items() <= how.items() else judge(world, expected, run)
            counts[verdict.word] += 1
            if verdict.word == "WRONG":
                wrong.append(f"{how}{'' if run == world.run else ', then init'}: {verdict.why}")
    return "\n".join(wrong), counts


def forgotten(world: Place, run: Callable[[], object]) -> damage.Verdict:
    """Run a repository of which nothing is left: it is refused at the sinks, whose rows stay as they are, once each."""
    before = worlds.published(world)
    try:
        with worlds.bounded():
            run()
    except worlds.REFUSALS as error:
        after = worlds.published(world)
        changed = [name for name, rows in before.items() if after.get(name) != rows]
        twice = [name for name in after.keys() - before.keys() if version_of(name) in map(version_of, before)]
        if not changed and not twice:
            return damage.Verdict("refused", [str(error)])
        return damage.Verdict("WRONG", [f"files of the sink changed: {changed}, were published twice: {twice}"])
    return damage.Verdict("WRONG", ["the run was not refused"])


def version_of(name: str) -> tuple[str, str]:
    """Return the sink and the version in the name of a published file."""
    sink, _, file = name.removeprefix("sinks/").partition("/")
    return sink, file.split("-0", 1)[1][:9]


def test_a_sample_of_partial_restores_is_harmless_or_refused(tmp_path: Path) -> None:
    single = [how for how in RESTORES if len(how) == 1]
    some = [*single, *random.Random(5).sample(RESTORES, SAMPLE - len(single))]
    wrong, _ = restores(worlds.memory_world(tmp_path), some)
    assert not wrong, wrong


@pytest.mark.slow("restore every combination of parts")
@pytest.mark.parametrize("kind", list(worlds.WORLDS))
def test_every_partial_restore_is_harmless_or_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = exhaustive.some(RESTORES, MANY[kind])
    wrong, counts = restores(worlds.WORLDS[kind](tmp_path), some)
    with capsys.disabled():
        print(f"\n{kind}, {sum(counts.values())} partial restores: {dict(counts)}")
    assert not wrong, wrong


@pytest.fixture(params=["memory", pytest.param("folder", marks=pytest.mark.slow("damage repositories in folders"))])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return worlds.WORLDS[request.param](tmp_path)


def rows_of_sink(world: Place) -> Counter[str]:
    return Counter(row for rows in worlds.published(world).values() for row in rows)


def rows_committed(world: Place) -> Counter[str]:
    """The rows that the sinks should have, in the form of `worlds.published`."""
    repository = world.open()
    return Counter(f"{sink} {row}" for sink in worlds.SINKS for row in repository.outputs(sink=sink).to_pylist())


def run_or_refuse(world: Place) -> bool:
    """Run. Return whether it was refused."""
    with worlds.bounded():
        try:
            world.run()
        except worlds.REFUSALS:
            return True
    return False


def test_a_restored_backup_that_meets_other_input_never_leaves_the_sink_without_its_rows(world: Place) -> None:
    older, newest = made(world)
    world.load({**{n: d for n, d in newest.items() if not n.startswith("root/")},
                **{n: d for n, d in older.items() if n.startswith("root/")}})  # fmt: skip
    before = rows_of_sink(world)
    worlds.make_file(world.inbox / "00025.json", random.Random(8), 9)  # sorts before files that the lost versions read
    if run_or_refuse(world):
        assert rows_of_sink(world) == before
    else:
        assert rows_of_sink(world) == rows_committed(world)


def copied(world: Place, root_name: str) -> Place:
    """The same world with its root copied beside the first, and the same sinks."""
    other = world.at(world.base, root_name)
    for name, (data, time_ns) in world.save(f"{world.root_name}/").items():
        world.write(f"{root_name}{name.removeprefix(world.root_name)}", data, time_ns)
    return other


def remove(world: Place, prefix: str) -> None:
    for entry in list(world.store.list(prefix)):
        world.store.delete(entry.name)


def test_a_copied_root_that_was_not_adopted_does_not_run(world: Place) -> None:
    made(world)
    copy = copied(world, "copy")
    world.run()
    before = rows_of_sink(world)
    with pytest.raises(worlds.REFUSALS):
        copy.run()
    assert rows_of_sink(world) == before


def test_a_moved_root_that_was_not_adopted_does_not_run(world: Place) -> None:
    made(world)
    moved = copied(world, "moved")
    remove(world, "root/")
    before = rows_of_sink(world)
    with pytest.raises(worlds.REFUSALS):
        moved.run()
    assert rows_of_sink(world) == before


def test_a_second_repository_does_not_double_the_rows_of_a_sink(world: Place) -> None:
    world.begin()
    world.run()
    before = rows_of_sink(world)
    again = world.at(world.base, "root2")
    again.open().init()
    with pytest.raises(worlds.REFUSALS):
        again.run()
    assert rows_of_sink(world) == before


def test_a_lost_repository_that_is_initialised_again_does_not_double_the_rows_of_a_sink(world: Place) -> None:
    world.begin()
    world.run()
    before = rows_of_sink(world)
    remove(world, "root/")
    world.open().init()
    with pytest.raises(worlds.REFUSALS):
        world.run()
    assert rows_of_sink(world) == before


def test_published_files_that_consumers_take_are_not_published_again(world: Place) -> None:
    world.begin()
    remove(world, "sinks/")
    assert world.run() != []
    found = rows_of_sink(world)
    assert found and all(f"'_batch_id': {BEFORE}" in row for row in found)
    remove(world, "sinks/")
    assert world.run() == [] and rows_of_sink(world) == Counter()


def test_a_sink_that_was_moved_gets_new_versions_at_its_new_place(world: Place) -> None:
    world.begin()
    for name, (data, time_ns) in world.save("sinks/").items():
        world.write(f"moved{name.removeprefix('sinks')}", data, time_ns)
    remove(world, "sinks/")
    moved = world.at(world.base, sink_name="moved")
    if not run_or_refuse(moved):
        assert rows_of_sink(world) == Counter()
        assert rows_of_sink(moved) == rows_committed(moved)


def lost(world: Place, kind: str, numbers: range) -> None:
    """Delete plans or commits."""
    for number in numbers:
        world.store.delete(f"{in_repository(world, 'branches')[0]}main/{kind}/{number:010d}.json")


LOSSES = {f"first {n}": range(n) for n in (1, 2, 3, BEFORE)} | {
    f"last {n}": range(BEFORE - n, BEFORE) for n in (1, 2, 3)
}


@pytest.mark.parametrize("plans", ["plans kept", "plans lost"])
@pytest.mark.parametrize("hint", ["hint kept", "hint lost"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_lost_commits_never_make_a_run_begin_again(world: Place, loss: str, hint: str, plans: str) -> None:
    world.begin()
    snapshot = world.save()
    expected = damage.expect(world, snapshot)
    world.load(snapshot)
    lost(world, "commits", LOSSES[loss])
    if plans == "plans lost":
        lost(world, "plans", LOSSES[loss])
    if hint == "hint lost":
        world.store.delete(f"{in_repository(world, 'branches')[0]}main/head.json")
    verdict = judge(world, expected, world.run)
    assert verdict.word != "WRONG", verdict.why


def test_a_lost_refs_log_is_refused_by_run_and_by_init(world: Place) -> None:
    world.begin()
    before = rows_of_sink(world)
    remove(world, in_repository(world, "refs")[0])
    for refused in (world.run, lambda: world.open().init()):
        with pytest.raises(tm.CorruptState):
            refused()
    assert rows_of_sink(world) == before
