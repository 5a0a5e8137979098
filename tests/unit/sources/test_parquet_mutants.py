"""A changed Parquet file is read as rows, or is one clear error: it never ends, stops or fills the process."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
from collections import Counter

import pytest

SECONDS = 30
"""More than the slowest mutant needs, which takes part of a second."""


def read_mutants(first: int, last: int) -> Counter[str]:
    """Read mutants in a child process, and count how they ended. Another child resumes after one that was lost."""
    ends: Counter[str] = Counter()
    while first <= last:
        command = [sys.executable, "-m", "tests.unit.sources.mutants", str(first), str(last)]
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as child,
        ):
            found, stopped = ended(child)
            child.wait()
            said.seek(0)
            errors = said.read().decode(errors="replace")[-500:]
        assert found, errors
        ends.update(end for _, end in found if end)
        number, end = found[-1]
        if not end or number < last:
            ends[f"mutant {number}: {'no end' if stopped else f'exit code {child.returncode}'}: {errors}"] += 1
        first = number + 1
    return ends


def ended(child: subprocess.Popen[bytes]) -> tuple[list[tuple[int, str]], bool]:
    """Return the numbers of mutants and how they ended, and whether one did not end in time; its process is killed."""
    assert child.stdout is not None
    text = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(SECONDS):
            if not (more := os.read(child.stdout.fileno(), 65_536)):
                return lines(text), False
            text += more
    child.kill()
    return lines(text), True


def lines(text: bytes) -> list[tuple[int, str]]:
    pairs = [line.partition(" ") for line in text.decode().splitlines()]
    return [(int(number), end) for number, _, end in pairs]


def check(first: int, last: int) -> None:
    ends = read_mutants(first, last)
    assert set(ends) == {"rows", "error"}, ends
    assert ends.total() == last - first + 1
    assert min(ends.values()) > 0.1 * ends.total(), "most mutants reach no decoder, or change nothing"


def test_a_changed_file_is_rows_or_one_error() -> None:
    check(1, 3_000)


@pytest.mark.slow("many changed files")
def test_every_changed_file_is_rows_or_one_error() -> None:
    check(3_001, 43_000)
