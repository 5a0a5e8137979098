"""A year of departures from New York, one file per day: the state of every aircraft, running totals per carrier.

The first example, and the pipeline of `tidemill demo`, which writes the files. TIDEMILL_DEMO names the demo's folder.
An aircraft that does not fly for 30 days adds a row to the folder `silent`. Each batch adds the new totals of its
carriers to `carriers`.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tidemill as tm

FOLDER = Path(os.environ.get("TIDEMILL_DEMO") or "tidemill-demo").absolute()


def track(batchTime: int, tailnum: str, flight: Any, state: Any) -> tuple[Any, ...] | None:
    """Update one aircraft. Called for each departure, in order, and once more when the aircraft times out."""
    if state.isTimingOut:
        noticed = datetime.fromtimestamp(batchTime / 1000, UTC).replace(tzinfo=None)
        return (tailnum, *state.get, noticed)  # the alert, an output row; Tidemill then removes the state
    seen = state.getOption
    if seen is None:
        state.update((flight.carrier, 1, flight.air_time or 0, flight.departure, flight.dest))
    else:
        later = flight.departure >= seen.last_seen
        state.update(
            (
                flight.carrier,
                seen.flights + 1,
                seen.air_minutes + (flight.air_time or 0),
                flight.departure if later else seen.last_seen,
                flight.dest if later else seen.last_dest,
            )
        )
    return None  # no output row


def end_of_newest_day(plan: Any) -> int:
    """Return the batch time: midnight after the newest file, so that a backfill runs in the time of its data."""
    newest = max(Path(split.path).stem for split in plan.splits)
    midnight = datetime.fromisoformat(f"{newest}T00:00:00+00:00") + timedelta(days=1)
    return int(midnight.timestamp() * 1000)


p = tm.Pipeline("flights").batch_time(end_of_newest_day)

flights = p.read(
    tm.Files(
        str(FOLDER / "flights"),
        format="csv",
        header=True,
        maxFilesPerTrigger=7,
        schema="scheduled timestamp, carrier string, flight int, tailnum string, origin string, dest string, "
        "dep_delay int, arr_delay int, air_time int, distance int",
    )
)

# A cancelled flight has no delay, and often no aircraft. It counts for its carrier only.
departures = flights.sql(
    "SELECT *, scheduled + to_minutes(dep_delay) AS departure FROM rows "
    "WHERE dep_delay IS NOT NULL AND tailnum IS NOT NULL"
).withWatermark("departure", "2 days")

aircraft = departures.groupBy("tailnum").mapWithState(
    tm.StateSpec.function(track).timeout("30 days", clock="event"),
    name="aircraft",
    stateSchema="carrier string, flights int, air_minutes int, last_seen timestamp, last_dest string",
    outputSchema="tailnum string, carrier string, flights int, air_minutes int, last_seen timestamp, "
    "last_dest string, noticed timestamp",
)
aircraft.write(tm.Parquet(str(FOLDER / "silent")))

carriers = flights.groupBy("carrier").agg(
    flights=tm.count(),
    departed=tm.count("dep_delay"),
    miles=tm.sum("distance"),
    mean_delay=tm.mean("dep_delay"),
    worst_delay=tm.max("dep_delay"),
    name="carriers",
)
carriers.write(tm.Json(str(FOLDER / "carriers")))
