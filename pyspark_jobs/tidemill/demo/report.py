"""The demo's summary: the busiest and the silent aircraft, one aircraft at two versions, totals of the carriers.

Everything is read from the repository through its public methods. INVARIANT: each statement is true of the version
that is reported, so the summary is also right after an interrupted demo.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .. import names
from ..counts import count_of
from ..protocol.records import HASH_END, Commit
from ..sources import connections
from ..units import iso
from ..values import dataclass
from . import data

if TYPE_CHECKING:
    from ..repository import Repository

REFERENCE = "tidemill.demo.flights:p"
_SHOWN = 5


@dataclass(frozen=True)
class Section:
    """A headline and a table, which may be empty."""

    title: str
    table: pa.Table


def sections(repository: Repository, head: Commit) -> list[Section]:
    """Return the sections of the summary of version `head`."""
    aircraft = repository.state("aircraft", version=head.version)
    alerts = repository.outputs(sink="aircraft")
    busiest = _busiest(aircraft)
    found = [
        Section(f"The busiest of {aircraft.num_rows:,} aircraft", busiest),
        Section(_silent_title(alerts.num_rows), _silent(alerts)),
    ]
    if busiest.num_rows:
        tail = busiest["aircraft"][0].as_py()
        found.append(Section(f"Aircraft {tail} at an old version and at the newest", _history(repository, head, tail)))
    found.append(Section("Running totals of the carriers", _carriers(repository.outputs(sink="carriers"))))
    return found


def _busiest(aircraft: pa.Table) -> pa.Table:
    return _query(
        f"""SELECT tailnum AS aircraft, name AS carrier, flights, round(air_minutes / 60) AS "hours in the air",
            last_seen AS "last seen", last_dest AS "flying to"
            FROM rows JOIN airlines USING (carrier) ORDER BY flights DESC, tailnum LIMIT {_SHOWN}""",
        aircraft,
    )


def _silent_title(alerts: int) -> str:
    if not alerts:
        return "Silent aircraft: none yet"
    return f"Silent aircraft: {count_of(alerts, 'alert')} after 30 days without a departure; the latest"


def _silent(alerts: pa.Table) -> pa.Table:
    return _query(
        f"""SELECT tailnum AS aircraft, name AS carrier, flights, last_seen AS "last seen", last_dest AS "flying to",
            noticed::DATE AS noticed FROM rows JOIN airlines USING (carrier)
            ORDER BY noticed DESC, last_seen DESC, tailnum LIMIT {_SHOWN}""",
        alerts,
    )


def _history(repository: Repository, head: Commit, tail: str) -> pa.Table:
    """Return the aircraft's state at a third of the versions and at the head."""
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
    """Return the newest totals: the last output row of each carrier."""
    return _query(
        """SELECT name AS carrier, flights, flights - departed AS cancelled, miles,
           mean_delay::DECIMAL(9, 1) AS "delay, min", (worst_delay / 60)::DECIMAL(9, 1) AS "worst, h"
           FROM rows JOIN airlines USING (carrier)
           QUALIFY row_number() OVER (PARTITION BY carrier ORDER BY _batch_id DESC, _seq DESC) = 1
           ORDER BY flights DESC""",
        totals,
    )


def _query(sql: str, rows: pa.Table) -> pa.Table:
    """Run a DuckDB query over `rows` and `airlines`, which names every carrier of `rows`."""
    known = data.airlines()
    codes = sorted(set(rows["carrier"].to_pylist()))
    names_of = pa.table({"carrier": codes, "name": [known.get(code, code) for code in codes]},
                        schema=pa.schema({"carrier": pa.string(), "name": pa.string()}))  # fmt: skip
    return connections.query(connections.for_user_sql(), sql, rows=rows, airlines=names_of)


def state_sql(folder: Path, head: Commit) -> str | None:
    """Return DuckDB SQL that reads the newest state of every aircraft from the files alone, without Tidemill.

    None if the version uses only part of a segment's rows, because a reader must then hash the keys.
    """
    if any((segment.lo, segment.hi) != (0, HASH_END) for segment in head.state["aircraft"]["state"]):
        return None
    here = folder / "repository" / "flights"
    return f"""-- All aircraft at version {head.version}, read without Tidemill. A commit names the files of its
-- version. If several files have a row of an aircraft, the newest file counts. To read another
-- version, change the number of the commit.
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
