"""Measure the state core beside a hash map and beside the JVM's state map, in turn, with equal results.

    make bench BENCH=state_core ARGS="[--runs 7] [--keys 10000000] [--only NAME …] [--no-jvm] [--json FILE]"

One run measures every row of the table: median, least and greatest value, ratio to the peer, and aim. Times are CPU
times of the measuring thread. Results are compared before figures are printed. No time makes the program fail.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import state_calls
import state_reopen
from events import machine
from state_programs import Program, build_jvm, build_ours, jvm_command


@dataclass(frozen=True)
class Figure:
    """One row: a measurement and its aim."""

    what: str
    peer: str
    value: float
    """The measured value, or its ratio to the peer."""
    unit: str
    target: float
    is_least: bool = True
    """Whether `target` is the least acceptable value, not the greatest."""
    runs: Sequence[float] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        """Return whether the value meets the target."""
        return self.value >= self.target if self.is_least else self.value <= self.target

    def line(self) -> str:
        """Return the row as text."""
        spread = f"({min(self.runs):,.4g}–{max(self.runs):,.4g})" if self.runs else ""
        target = f"{'≥' if self.is_least else '≤'} {self.target:g}"
        said = "reached" if self.reached else "NOT REACHED"
        return f"{self.what:<46}{self.peer:<24}{self.value:>12,.4g} {self.unit:<9}{spread:<22}{target:>10}  {said}"


@dataclass
class Lab:
    """The sizes and the programs of a run, and its figures."""

    keys: int
    text_keys: int
    jvm_keys: int
    batch: int
    small: int
    batches: int
    runs: int
    jvm_heap: str
    program: Path
    classes: Path | None
    figures: list[Figure] = field(default_factory=list)

    def ours(self, scenario: str, keys: int, rows: int, kind: str = "number") -> Program:
        """Start the engine's program with a state of `keys` keys."""
        return Program([str(self.program), scenario, str(keys), str(rows), kind])

    def jvm(self, keys: int, rows: int, kind: str = "number") -> Program:
        """Start the JVM's program with a state of `keys` keys."""
        assert self.classes is not None
        return Program(jvm_command(self.classes, self.jvm_heap, keys, rows, kind))

    def add(self, figure: Figure) -> None:
        """Add a row and print it."""
        self.figures.append(figure)
        print(figure.line(), flush=True)

    def at_most(self, what: str, peer: str, value: float, unit: str, target: float, runs: Sequence[float] = ()) -> None:
        """Add a row whose value should be at most `target`."""
        self.add(Figure(what, peer, value, unit, target, is_least=False, runs=runs))

    def at_least(
        self, what: str, peer: str, value: float, unit: str, target: float, runs: Sequence[float] = ()
    ) -> None:
        """Add a row whose value should be at least `target`."""
        self.add(Figure(what, peer, value, unit, target, runs=runs))


Asked = tuple[Program, str]


def answers_in_turn(runs: int, *asked: Asked, compare: str | None = "digest") -> list[list[dict[str, float]]]:
    """Ask the programs in turn; return the answers of each. The first round is not counted. Results must be equal."""
    found: list[list[dict[str, float]]] = [[] for _ in asked]
    for number in range(runs + 1):
        answers = [program.ask(command, number) for program, command in asked]
        if compare is not None:
            seen = {answer[compare] for answer in answers}
            assert len(seen) == 1, f"{[command for _, command in asked]}: results differ: {answers}"
        if number > 0:
            for kept, answer in zip(found, answers, strict=True):
                kept.append(answer)
    return found


def in_turn(runs: int, *asked: Asked, compare: str | None = "digest") -> list[list[float]]:
    """Return the nanoseconds of `answers_in_turn`."""
    return [[answer["ns"] for answer in answers] for answers in answers_in_turn(runs, *asked, compare=compare)]


def middle(numbers: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(numbers)


def rates(rows: int, nanoseconds: Sequence[float]) -> list[float]:
    """Return millions of rows a second."""
    return [rows / one * 1000 for one in nanoseconds]


def show_plain(rows: int, answers: Sequence[dict[str, float]], own: float) -> None:
    """Print the time of plain loops that already know the place of each key: a bound for the engine, not an aim."""
    nanoseconds, sorting = (middle([answer[name] for answer in answers]) for name in ("ns", "sorting"))
    print(
        f"    plain loops that know the places: {nanoseconds / 1e6:.2f} ms, "
        f"{sorting / 1e6:.2f} of them to hash and sort; "
        f"{rows / nanoseconds * 1000:.2f} M rows/s, {nanoseconds / own:.2f} times as long as the engine",
        flush=True,
    )


def show_steps(program: Program, runs: int) -> None:
    """Print where the time of a batch goes."""
    answers = [program.ask("steps", number) for number in range(runs)]
    steps = [f"{name} {middle([answer[name] for answer in answers]) / 1e6:.2f}" for name in answers[0]]
    print(f"    of that, in ms: {', '.join(steps)}", flush=True)


def updates(lab: Lab, what: str, keys: int, kind: str, target: float) -> None:
    """Measure a batch of random updates, including its delta."""
    with ExitStack() as stack:
        ours = stack.enter_context(lab.ours("updates", keys, lab.batch, kind))
        asked = [(ours, "ours"), (ours, "hashbrown"), (ours, "plain"), (ours, "plain_rows")]
        if lab.classes is not None:
            asked.append((stack.enter_context(lab.jvm(keys, lab.batch, kind)), "update"))
        answers = answers_in_turn(lab.runs, *asked)
        found = [[answer["ns"] for answer in each] for each in answers]
        own = middle(found[0])
        lab.at_least(what, "", lab.batch / own * 1000, "M rows/s", target, rates(lab.batch, found[0]))
        lab.at_least(what, "hashbrown with delta", middle(found[1]) / own, "times", 2.5)
        show_steps(ours, lab.runs)
        show_plain(lab.batch, answers[2], own)
        print("    the same with a state stored row by row:")
        show_plain(lab.batch, answers[3], own)
        if lab.classes is not None:
            lab.at_least(what, "JVM StateMap", middle(found[4]) / own, "times", 40)
        if kind == "number":
            forks = [ours.ask("fork", number)["ns"] / 1000 for number in range(lab.runs)]
            clone = middle([ours.ask("clone", number)["ns"] for number in range(lab.runs)]) / 1000
            lab.at_most("fork", f"clone {clone:,.0f} µs", middle(forks), "µs", 0.2, forks)
            lab.at_most("memory a key", "", ours.ask("memory")["bytes"] / keys, "B", 50)


def numbers(lab: Lab) -> None:
    """Measure updates of u64 keys."""
    updates(lab, "random updates, u64 keys", lab.keys, "number", 20)


def texts(lab: Lab) -> None:
    """Measure updates of 16-byte strings."""
    updates(lab, "random updates, 16-byte keys", lab.text_keys, "text", 10)


def sparse(lab: Lab) -> None:
    """Measure a small batch into a large state, and into one with a hundredth of the keys."""
    with lab.ours("updates", lab.keys, lab.small) as large, lab.ours("updates", lab.keys // 100, lab.small) as little:
        answers = answers_in_turn(lab.runs, (large, "ours"), (large, "hashbrown"), (large, "plain"))
        of_large = [answer["ns"] for answer in answers[0]]
        of_little, _ = in_turn(lab.runs, (little, "ours"), (little, "hashbrown"))
        ms = [one / 1e6 for one in of_large]
        lab.at_most("small batch", "", middle(ms), "ms", 1.5, ms)
        show_steps(large, lab.runs)
        show_plain(lab.small, answers[2], middle(of_large))
        lab.at_most("small batch", "a hundredth of the keys", middle(of_large) / middle(of_little), "times", 4)
    with lab.ours("updates", lab.keys, lab.small) as large:
        # As in a pipeline: neither a hash map of a gigabyte nor plain loops run between the batches.
        (nanoseconds,) = in_turn(lab.runs, (large, "ours"))
        ms = [one / 1e6 for one in nanoseconds]
        lab.at_most("small batches, one after the other", "", middle(ms), "ms", 1.5, ms)


def depth(lab: Lab) -> None:
    """Measure a look-up twenty versions deep."""
    with ExitStack() as stack:
        ours = stack.enter_context(lab.ours("depth", lab.keys, lab.small))
        one, deep = in_turn(lab.runs, (ours, "one"), (ours, "deep"))
        own = [each / lab.small for each in deep]
        lab.at_most("get, 20 versions deep", "one run", middle(deep) / middle(one), "times", 1.7)
        if lab.classes is not None:
            jvm = stack.enter_context(lab.jvm(lab.jvm_keys, lab.small))
            (theirs,) = in_turn(lab.runs, (jvm, "get"))
            lab.at_least(
                "get, 20 versions deep", "JVM at depth 19", middle(theirs) / lab.small / middle(own), "times", 6
            )


def due(lab: Lab) -> None:
    """Measure the search for due rows, and for rows that would be due if they had not been refreshed."""
    with ExitStack() as stack:
        ours = stack.enter_context(lab.ours("due", lab.keys, lab.small))
        for _ in range(3):
            ours.ask("ours")  # the third search builds the index of deadlines
        (scans,) = answers_in_turn(lab.runs, (ours, "scan"))
        answers = answers_in_turn(lab.runs, (ours, "cold"), (ours, "ours"))
        assert scans[0]["digest"] == answers[0][0]["digest"], "due: a full scan finds other rows"
        scan, found, again = ([answer["ns"] for answer in each] for each in (scans, *answers))
        ms = [one / 1e6 for one in found]
        lab.at_most("due rows", f"full scan {middle(scan) / 1e6:,.0f} ms", middle(ms), "ms", 1, ms)
        print(f"    the same rows again, now in cache: {middle(again) / 1e6:.2f} ms")
        for what, command in (("as many refreshed ones", "refreshed"), ("the same in the next batch", "waiting")):
            (put_off,) = in_turn(lab.runs, (ours, command))
            ms = [one / 1e6 for one in put_off]
            lab.at_most(what, "", middle(ms), "ms", 1, ms)
        if lab.classes is not None:
            jvm = stack.enter_context(lab.jvm(lab.jvm_keys, lab.small))
            (theirs,) = in_turn(lab.runs, (jvm, "due"), compare="rows")
            each = middle(theirs) / lab.jvm_keys * lab.keys
            lab.at_least("due rows", "JVM getByTime, by keys", each / middle(found), "times", 1)


def tiers(lab: Lab) -> None:
    """Measure many small batches into a large state."""
    with lab.ours("tiers", lab.keys, lab.small) as ours:
        answers = [ours.ask("batch", number) for number in range(lab.batches)]
        times = [one["ns"] / 1e6 for one in answers]
        lab.at_most("many small batches", "median batch", max(times) / middle(times), "times", 3, times)
        written, changed = sum(one["written"] for one in answers), sum(one["delta"] for one in answers)
        lab.at_most("many small batches: write amplification", "", written / changed, "times", 4)
        lab.at_most("many small batches: runs at most", "", max(one["runs"] for one in answers), "runs", 8)


def aggregate(lab: Lab) -> None:
    """Measure the operator `agg` with ten rows a key."""
    with lab.ours("aggregate", lab.keys, lab.batch) as ours:
        answers = answers_in_turn(lab.runs, (ours, "ours"), (ours, "hashbrown"), (ours, "plain"))
        own, peer, _ = ([answer["ns"] for answer in each] for each in answers)
        what, each = "agg of ten rows a key", rates(lab.batch, own)
        lab.at_least(what, f"hashbrown {lab.batch / middle(peer) * 1000:,.1f}", middle(each), "M rows/s", 30, each)
        show_steps(ours, lab.runs)
        show_plain(lab.batch, answers[2], middle(own))


def segments(lab: Lab) -> None:
    """Measure writing and opening a base, and the size of a delta on disk."""
    with ExitStack() as stack:
        ours = stack.enter_context(lab.ours("segments", lab.keys, min(lab.keys, 10 * lab.small)))
        written, opened = in_turn(lab.runs, (ours, "write"), (ours, "open"), compare=None)
        delta = ours.ask("delta")["bytes"] / (10 * lab.small)
        lab.at_most("delta of random u64 keys, int counter", "", delta, "B a key", 16)
        print(f"    base written in {middle(written) / 1e6:,.0f} ms, opened in {middle(opened) / 1e6:,.0f} ms")
        parts = in_turn(lab.runs, (ours, "pages"), (ours, "memory"), compare=None)
        unpacked, filled = (middle(one) / 1e6 for one in parts)
        print(f"    of that, pages unpacked {unpacked:,.0f} ms; as much new memory filled {filled:,.0f} ms")
        if lab.classes is not None:
            jvm = stack.enter_context(lab.jvm(lab.jvm_keys, lab.small))
            heap = jvm.ask("heap")["bytes"] / lab.jvm_keys
            theirs = in_turn(lab.runs, (jvm, "write"), (jvm, "open"), compare=None)
            each = [middle(one) / lab.jvm_keys * lab.keys for one in theirs]
            lab.at_least("base write, by keys", "JVM serialise", each[0] / middle(written), "times", 30)
            lab.at_least("cold open, by keys", "JVM deserialise", each[1] / middle(opened), "times", 20)
            print(f"    the JVM's heap: {heap:,.0f} B a key")
            bytes_a_key = jvm.ask("delta", 10 * lab.small)["bytes"] / (10 * lab.small)
            print(f"    a delta as the JVM serialises it: {bytes_a_key:.1f} B a key")


def reopen(lab: Lab) -> None:
    """Measure opening a version and its first get: cold, and from the cache on disk."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
        cold, again = state_reopen.measured(lab.keys, lab.runs, Path(folder) / "cache")
    ms = [one * 1000 for one in again]
    lab.at_most("opened again, first get", f"cold {middle(cold) * 1000:,.0f} ms", middle(ms), "ms", 1, ms)


def calls(lab: Lab) -> None:
    """Measure one call of a Python function for each record."""
    found: list[tuple[float, float]] = []
    for seed in range(1, lab.runs + 1):
        own, totals = state_calls.ours(lab.batch, seed)
        plain, expected = state_calls.loop(lab.batch, seed)
        assert totals == expected, "calls: results differ"
        found.append((own, plain))
    each = [lab.batch / own / 1e6 for own, _ in found]
    loop = lab.batch / middle([plain for _, plain in found]) / 1e6
    lab.at_least("Python calls a record", f"loop over a dict {loop:.1f}", middle(each), "M rows/s", 2, each)


MEASUREMENTS: dict[str, Callable[[Lab], None]] = {
    "numbers": numbers,
    "texts": texts,
    "sparse": sparse,
    "depth": depth,
    "due": due,
    "tiers": tiers,
    "aggregate": aggregate,
    "segments": segments,
    "reopen": reopen,
    "calls": calls,
}


def main() -> None:
    """Run the measurements that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="counted rounds of each measurement")
    parser.add_argument("--keys", type=int, default=10_000_000, help="u64 keys of the large state")
    parser.add_argument("--text-keys", type=int, default=5_000_000, help="text keys of the large state")
    parser.add_argument(
        "--jvm-keys", type=int, default=1_000_000, help="keys on the JVM, if figures are compared per key"
    )
    parser.add_argument("--jvm-heap", default="6g", help="heap of the JVM, as for -Xmx")
    parser.add_argument("--batch", type=int, default=1_000_000, help="rows of a large batch")
    parser.add_argument("--small", type=int, default=10_000, help="rows of a small batch")
    parser.add_argument("--batches", type=int, default=200, help="batches of `tiers`")
    parser.add_argument("--only", nargs="*", default=[], choices=MEASUREMENTS, help="measurements to run")
    parser.add_argument("--no-jvm", action="store_true", help="do not measure the JVM")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
        classes = None if given.no_jvm or not build_jvm(Path(folder)) else Path(folder)
        lab = Lab(
            given.keys, given.text_keys, given.jvm_keys, given.batch, given.small, given.batches, given.runs,
            given.jvm_heap, build_ours(), classes,
        )  # fmt: skip
        print(f"{machine()}, medians of {given.runs}", flush=True)
        for name, measure in MEASUREMENTS.items():
            if not given.only or name in given.only:
                measure(lab)
    if given.json is not None:
        rows = [{**asdict(figure), "reached": figure.reached} for figure in lab.figures]
        given.json.write_text(json.dumps({"machine": machine(), "figures": rows}, indent=1))


if __name__ == "__main__":
    main()
