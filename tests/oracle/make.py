"""Record the output of real Spark for the cases: `python -m tests.oracle.make [name…]`; default: those without a file.

With `--columns` before the names only the columns are written again, which Spark knows before a query starts: all cases
take half a minute. The files are the oracle: they are made once for a case and change only where the case does.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from tests.oracle.case import Outcome

OUTPUTS = Path(__file__).parent / "outputs"


def main(arguments: list[str]) -> None:
    """Run Spark for the named cases, or for those that have no file yet."""
    from tests.oracle import spark
    from tests.oracle.cases import CASES

    columns_only = arguments[:1] == ["--columns"]
    names = arguments[columns_only:]
    chosen = names or [name for name in CASES if columns_only or not path(name).exists()]
    session = spark.session()
    for number, name in enumerate(chosen, 1):
        if columns_only:
            write(name, dataclasses.replace(recorded(name), columns=spark.columns(session, CASES[name])))
        else:
            write(name, spark.outcome(session, CASES[name]))
        print(f"{number}/{len(chosen)} {name}", flush=True)
    session.stop()


def path(name: str) -> Path:
    """Return the file of a case."""
    return OUTPUTS / f"{name}.json"


def recorded(name: str) -> Outcome:
    """Return the recorded output of a case."""
    return Outcome(**json.loads(path(name).read_text()))


def write(name: str, found: Outcome) -> None:
    """The columns in one line, then one line a micro-batch."""
    columns = json.dumps(found.columns, ensure_ascii=False)
    lines = ",\n".join(json.dumps(rows, ensure_ascii=False) for rows in found.batches)
    path(name).write_text(f'{{"columns": {columns},\n"batches": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
