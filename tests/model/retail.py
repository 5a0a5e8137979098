"""The retail pipeline of the tests, a small synthetic data set in its form, and the expected results for both."""

from __future__ import annotations

import csv
import random
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import tidemill as tm

SCHEMA = (
    "InvoiceNo string, StockCode string, Description string, Quantity int, InvoiceDate timestamp, "
    "UnitPrice decimal(12,3), CustomerID double, Country string"
)
REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "online-retail"
TIMEOUT = timedelta(days=30)
DELAY = timedelta(days=1)


def day_ms(day: str) -> int:
    """Return midnight of the day of a file, in ms."""
    return int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * 1000


def spend(batch_time, customer, row, state):
    """Keep the number of lines and the total of a customer, and emit a row when the customer times out."""
    if state.isTimingOut:
        return (customer, *tuple(state.get), True)
    lines, total = tuple(state.get) if state.exists else (0, Decimal("0.000"))
    state.update((lines + 1, total + row.Quantity * row.UnitPrice))
    return (customer, *tuple(state.get), False)


def pipeline(folder: Path | str, timeout: bool = False, files: int = 1, sink: str | None = None) -> tm.Pipeline:
    """Per-customer state with a Python function and per-country sums in Rust, on one read, `files` a batch.

    The sums go to the folder `sink`, if one is given.
    """
    p = tm.Pipeline("retail")
    p.batch_time(lambda plan: day_ms(Path(plan.splits[-1].path).stem))
    sales = p.read(
        tm.Files(str(folder), format="csv", header=True, escape='"', maxFilesPerTrigger=files, schema=SCHEMA)
    )
    spec = tm.StateSpec.function(spend)
    if timeout:
        sales = sales.withWatermark("InvoiceDate", DELAY, late="keep")
        spec = spec.timeout(TIMEOUT, clock="event")
    sales.groupBy("CustomerID").mapWithState(
        spec, name="spend", stateSchema="lines long, total decimal(20,3)",
        outputSchema="customer double, lines long, total decimal(20,3), closed boolean",
    )  # fmt: skip
    amounts = sales.sql("SELECT Country, Quantity, Quantity * UnitPrice AS amount FROM rows")
    sums = amounts.groupBy("Country").agg(
        lines=tm.count(), units=tm.sum("Quantity"), money=tm.sum("amount"), name="by-country"
    )
    if sink is not None:
        sums.write(tm.Parquet(sink), name="sink")
    return p


def make_small(folder: Path, days: int = 12, seed: int = 5) -> Path:
    """Write daily files of synthetic sales with gaps between days, null customers and quoted commas and line breaks."""
    chance = random.Random(seed)
    day = datetime(2020, 1, 1)
    for _ in range(days):
        with (folder / f"{day:%Y-%m-%d}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([column.split()[0] for column in SCHEMA.replace("(12,3)", "").split(", ")])
            for line in range(chance.randint(1, 60)):
                time = day + timedelta(minutes=chance.randint(0, 1439))
                customer = chance.choice(["", *(f"{c}.0" for c in range(12300, 12316))])
                text = chance.choice(["MUG", 'SAYS "HI"', "RED, BLUE", "", "TWO\nLINES"])
                price = f"{chance.randint(0, 99999) / 1000:.3f}"
                writer.writerow(
                    [500000 + line, "85123A", text, chance.randint(-5, 50), time, price, customer,
                     chance.choice(["France", "Spain", "EIRE"])]
                )  # fmt: skip
        day += timedelta(days=chance.choice([1, 1, 2, 9, 33]))
    return folder


def naive(folder: Path) -> tuple[dict, list]:
    """The 30-day event timeout by a plain loop: final state, and every closed customer as (batch, customer, …)."""
    state: dict = {}
    deadline: dict = {}
    watermark = datetime(1970, 1, 1)
    closed = []
    for number, path in enumerate(sorted(folder.glob("*.csv"))):
        seen, greatest = set(), watermark + DELAY
        for row in csv.DictReader(path.open(newline="", encoding="utf-8")):
            customer = float(row["CustomerID"]) if row["CustomerID"] else None
            time = datetime.fromisoformat(row["InvoiceDate"])
            lines, total = state.get(customer, (0, Decimal("0.000")))
            state[customer] = (lines + 1, total + int(row["Quantity"]) * Decimal(row["UnitPrice"]))
            armed = max(time + TIMEOUT + timedelta(milliseconds=1), watermark)
            deadline[customer] = max(deadline.get(customer, armed), armed)
            seen.add(customer)
            greatest = max(greatest, time)
        for passes, (now, spared) in enumerate([(watermark, seen), (max(watermark, greatest - DELAY), set())]):
            if passes and now == watermark:
                continue
            for customer in [c for c, due in deadline.items() if due <= now and c not in spared]:
                closed.append((number, customer, *state.pop(customer)))
                del deadline[customer]
            watermark = now
    return state, closed
