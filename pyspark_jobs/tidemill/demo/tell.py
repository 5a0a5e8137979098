"""What the demo tells at its end: the busiest aircraft, who fell silent, one aircraft then and now, the carriers.

Everything is read from the repository, as any reader would. INVARIANT: only what is true of the version told about,
so that an interrupted demo tells the same way as a finished one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .. import names
from ..counts import count_of
from ..protocol.progress import iso
from ..protocol.records import HASH_END, Commit
from ..sources import duck
from . import data

if TYPE_CHECKING:
    from ..repository import Repository

REFERENCE = "tidemill.demo.flights:p"
_SHOWN = 5


@dataclass(frozen=True)
class Section:
    """A headline and the table below it; the headline alone where the table has no rows."""

    title: str
    table: pa.Table


def sections(repository: Repository, head: Commit) -> list[Section]:
    """What is told of version `head`."""
    aircraft = repository.state("aircraft", version=head.version)
    alerts = repository.outputs(sink="aircraft")
    busiest = _busiest(aircraft)
    found = [
        Section(f"The busiest of {aircraft.num_rows:,} aircraft", busiest),
        Section(f"Who fell silent: {_how_often(alerts.num_rows)}", _silent(alerts)),
    ]
    if busiest.num_rows:
        tail = busiest["aircraft"][0].as_py()
        found.append(Section(f"Aircraft {tail} at an old and at the newest version", _history(repository, head, tail)))
    found.append(Section("Carriers, running totals", _carriers(repository.outputs(sink="carriers"))))
    return found


def _busiest(aircraft: pa.Table) -> pa.Table:
    return _query(
        f"""SELECT tailnum AS aircraft, name AS carrier, flights, round(air_minutes / 60) AS "hours in the air",
            last_seen AS "last seen", last_dest AS "flying to"
            FROM rows JOIN airlines USING (carrier) ORDER BY flights DESC, tailnum LIMIT {_SHOWN}""",
        aircraft,
    )


def _how_often(alerts: int) -> str:
    if not alerts:
        return "no aircraft that left New York stayed away for 30 days so far"
    return f"{count_of(alerts, 'time')} an aircraft did not leave New York for 30 days; the latest"


def _silent(alerts: pa.Table) -> pa.Table:
    return _query(
        f"""SELECT tailnum AS aircraft, name AS carrier, flights, last_seen AS "last seen", last_dest AS "flying to",
            noticed::DATE AS noticed FROM rows JOIN airlines USING (carrier)
            ORDER BY noticed DESC, last_seen DESC, tailnum LIMIT {_SHOWN}""",
        alerts,
    )


def _history(repository: Repository, head: Commit, tail: str) -> pa.Table:
    """The aircraft's state at about a third of the way, and at the head."""
    rows = []
    for version in sorted({head.version // 3, head.version}):
        state = repository.state("aircraft", version=version, keys=[tail])
        at = iso(repository.commit(version).batch_time_ms)[:10]
        found = state.to_pylist()[0] if state.num_rows else {}
        hours = None if not found else round(found["air_minutes"] / 60)
        rows.append({
            "version": version, "as of": at, "flights": found.get("flights"), "hours in the air": hours,
            "last seen": found.get("last_seen"), "flying to": found.get("last_dest"),
        })  # fmt: skip
    return pa.Table.from_pylist(rows)


def _carriers(totals: pa.Table) -> pa.Table:
    """The last row that was given out for each carrier is its newest total."""
    return _query(
        """SELECT name AS carrier, flights, flights - departed AS cancelled, miles,
           mean_delay::DECIMAL(9, 1) AS "delay, min", (worst_delay / 60)::DECIMAL(9, 1) AS "worst, h"
           FROM rows JOIN airlines USING (carrier)
           QUALIFY row_number() OVER (PARTITION BY carrier ORDER BY _batch_id DESC) = 1 ORDER BY flights DESC""",
        totals,
    )


def _query(sql: str, rows: pa.Table) -> pa.Table:
    """A DuckDB query over `rows` and `airlines`, in which every carrier of `rows` has a name."""
    known = data.airlines()
    codes = sorted(set(rows["carrier"].to_pylist()))
    names_of = pa.table({"carrier": codes, "name": [known.get(code, code) for code in codes]},
                        schema=pa.schema({"carrier": pa.string(), "name": pa.string()}))  # fmt: skip
    return duck.query(duck.closed(), sql, rows=rows, airlines=names_of)


def state_sql(folder: Path, head: Commit) -> str | None:
    """SQL for DuckDB that gives the newest state of every aircraft from the files alone, without Tidemill.

    None where a segment shows only a part of its rows: then a reader must hash the keys.
    """
    if any((segment.lo, segment.hi) != (0, HASH_END) for segment in head.state["aircraft"]["state"]):
        return None
    here = folder / "repository" / "flights"
    return f"""-- Every aircraft at version {head.version}, read without Tidemill. A commit names the
-- files that make its version; of the rows of one aircraft the newest holds. For another version
-- change the number of the commit.
SET VARIABLE here = '{str(here).replace("'", "''")}/';
SET VARIABLE segments = (
    SELECT list(getvariable('here') || segment.name)
    FROM (SELECT unnest(state.aircraft.state) AS segment
          FROM read_json(getvariable('here') || '{names.commit("main", head.version)}')));
SELECT tailnum, carrier, flights, air_minutes, last_seen, last_dest
FROM read_parquet(getvariable('segments'), filename = true)
QUALIFY row_number() OVER (PARTITION BY tailnum ORDER BY filename DESC) = 1 AND NOT deleted
ORDER BY flights DESC, tailnum LIMIT {_SHOWN};
"""
