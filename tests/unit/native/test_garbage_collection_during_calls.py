"""The garbage collector may run during any call of a map, and a `__del__` may call the same map without a deadlock.

The cases run in a child process, because only that ends a thread that waits for its own lock.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("hostile input")

MADE = {
    "StateMap": "states = tm.StateMap('string', 'n bigint, tags array<string>')",
    "StateStore": """
class Version:
    def __init__(self):
        store = tm.StateStore("{root}", "s", 0, key="string", state="n bigint, tags array<string>")
        self.get = (version := store.get(0)).get
        self.put = lambda key, state, updated_ms: version.put(key, state)
        self.remove, self.get_all = version.remove, version.iterator
        self.__class__.__contains__ = lambda self, key: version.get(key) is not None
states = Version()
""",
}
CALLS = """
import faulthandler, gc
import tidemill as tm
from tidemill.errors import InvalidInput

faulthandler.dump_traceback_later(60, exit=True)
{made}
called = 0

class Calls:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        global called
        called += 1
        states.get("ann")
        "ann" in states
        states.put("bob", (called, ["b"]), 1)
        states.remove("eve")
        if called % 7 == 0:
            list(states.get_all())

states.put("ann", (1, ["a"] * 50), 1)
gc.set_threshold(1, 1, 1)
for number in range(200):
    Calls()
    assert states.get("ann") == (1, ["a"] * 50)
    assert "ann" in states
    states.put("ann", (1, ["a"] * 50), 1)
    Calls()
    try:
        states.put("ann", "no row", 1)
    except InvalidInput:
        pass
    Calls()
    len(list(states.get_all()))
gc.set_threshold(0)
assert called > 300, called
assert states.get("bob")[1] == ["b"]
print("done")
"""


@pytest.mark.parametrize("name", MADE)
def test_calls_of_a_map_within_its_own_calls(name: str, tmp_path: Path) -> None:
    code = CALLS.replace("{made}", MADE[name].replace("{root}", str(tmp_path)))
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90, check=False)
    assert (child.stdout, child.returncode) == ("done\n", 0), child.stderr
