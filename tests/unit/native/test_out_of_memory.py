"""A lack of memory raises one clear error, after which the process and the state remain usable.

The cases run in child processes whose address space is limited.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tidemill.errors import InvalidInput

pytestmark = pytest.mark.slow("hostile input")

KEYS, LENGTH = 20_000, 4096
MORE = 48 << 20
"""Bytes that the child may take; the states are about 80 MB, and small as a segment, for all are equal."""
STATES = pc.binary_repeat(pa.array(["x"] * KEYS), LENGTH)


def keys() -> pa.Array:
    return pa.array(range(KEYS), pa.int64())


def filled() -> tm.StateMap:
    states = tm.StateMap("bigint", "string")
    states.put_many(keys(), STATES, 1)
    return states


def changed() -> tm.StateMap:
    states = filled().copy()
    states.remove(1)
    return states


def prepared(path: str) -> dict[str, Callable[[], object]]:
    plain, deltas, asked = filled(), changed(), keys()
    return {
        "read": lambda: tm.StateMap.read([path], "bigint", "string"),
        "compact": changed().compact,
        "get_many": lambda: plain.get_many(asked),
        "put_many": lambda: tm.StateMap("bigint", "string").put_many(asked, STATES, 1),
        "write_base": lambda: deltas.write_base(f"{path}.base"),
        "write_delta": lambda: plain.write_delta(f"{path}.delta"),
    }


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run all calls in one child process, and return the error of each call."""
    path = tmp_path_factory.mktemp("segments") / "base.parquet"
    filled().write_base(path)
    assert path.stat().st_size < 200_000
    command = [sys.executable, "-m", "tests.unit.native.test_out_of_memory", str(path)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    return dict(json.loads(line) for line in child.stdout.splitlines())


@pytest.mark.parametrize("name", ["read", "compact", "get_many", "put_many", "write_base", "write_delta"])
def test_a_lack_of_memory_is_one_clear_error(name: str, said: dict[str, str]) -> None:
    assert "not enough memory for " in said[name]
    assert "hint: give the process more memory" in said[name]


def main(path: str) -> None:
    for name, call in prepared(path).items():
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MORE, resource.RLIM_INFINITY))
        line = "nothing was raised"
        try:
            call()
        except InvalidInput as error:
            line = str(error)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        call()  # it was refused, and nothing else
        print(json.dumps([name, line]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
