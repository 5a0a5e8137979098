"""Writes what real Spark gives for the cases: `python -m tests.oracle.make [name…]`, without names for those missing.

The files are the oracle: they are made once for a case and change only where the case does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

OUTPUTS = Path(__file__).parent / "outputs"


def main(names: list[str]) -> None:
    """Runs Spark for the cases named, or for those that have no file yet."""
    from tests.oracle import spark
    from tests.oracle.cases import CASES

    chosen = names or [name for name in CASES if not path(name).exists()]
    session = spark.session()
    for number, name in enumerate(chosen, 1):
        write(name, spark.outputs(session, CASES[name]))
        print(f"{number}/{len(chosen)} {name}", flush=True)
    session.stop()


def path(name: str) -> Path:
    """The file of a case."""
    return OUTPUTS / f"{name}.json"


def write(name: str, found: list[list[str]]) -> None:
    """One line a micro-batch."""
    lines = ",\n".join(json.dumps(rows, ensure_ascii=False) for rows in found)
    path(name).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
