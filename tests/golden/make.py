"""Makes `format-1`: a whole small repository in files, as the code that wrote format 1 left it.

From the first release on golden files are never regenerated: they are what users have on their disks. A new format
version gets a new folder beside this one, made by the code that writes it, and the tests read both. So this script
refuses a folder that is there; it is kept to show how the files came about. Run in the project's folder:
`python -m tests.golden.make`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import tidemill as tm
from tidemill.pipeline.load import load

FOLDER = Path(__file__).parent / "format-1"
PLACE = Path("/tmp/tidemill-golden")
"""Where the repository is made. Its records have the URIs of this place; tests move it."""
SCHEMA = "customer string, country string, at timestamp, amount decimal(10,2)"
HEADER = "customer,country,at,amount\n"
FIRST = """\
ada,UK,2024-03-01 09:00:00,10.00
ben,FR,2024-03-01 09:05:00,20.50
cleo,DE,2024-03-01 09:10:00,5.25
dora,UK,2024-03-01 09:15:00,7.00
emil,FR,2024-03-01 09:20:00,1.10
fay,ES,2024-03-01 09:25:00,99.99
gus,UK,2024-03-01 09:30:00,3.00
,DE,2024-03-01 09:35:00,4.00
Ümit,TR,2024-03-01 09:40:00,12.34
ada,UK,2024-03-01 09:45:00,0.01
hal,UK,2024-03-01 09:50:00,many
ivy,ES,2024-03-01 09:41:00,1.00
jan,PL,2024-03-01 09:42:00,2.00
kim,UK,2024-03-01 09:43:00,3.00
leo,FR,2024-03-01 09:44:00,4.00
mia,DE,2024-03-01 09:45:00,5.00
ned,PL,2024-03-01 09:46:00,6.00
ola,SE,2024-03-01 09:47:00,7.00
pia,IT,2024-03-01 09:48:00,8.00
rob,UK,2024-03-01 09:49:00,9.00
sue,IE,2024-03-01 09:50:00,10.00
tom,NL,2024-03-01 09:51:00,11.00
uma,AT,2024-03-01 09:52:00,12.00
"""
SECOND = """\
ben,FR,2024-03-01 10:40:00,2.00
cleo,DE,2024-03-01 10:21:00,1.75
zoe,PT,2024-03-01 09:30:00,8.00
"""
WRONG = "hal,UK,2024-03-01 10:50:00,-6.00\n"
THIRD = """\
hal,UK,2024-03-01 10:50:00,6.00
ada,UK,2024-03-01 10:45:00,1.00
"""


def visits(batch_time: int, customer: str | None, order: Any, state: Any) -> tuple[Any, ...]:
    """Count and sum orders by customer, and emit a last row when the hour of a customer is over."""
    if state.isTimingOut:
        return (customer, *tuple(state.get), True)
    if order.amount < 0:
        raise ValueError(f"a negative amount: {order.amount}")
    orders, total = tuple(state.get) if state.exists else (0, 0)
    state.update((orders + 1, total + order.amount))
    return (customer, orders + 1, total + order.amount, False)


def seen(amount: Any, state: Any) -> str | None:
    """Count orders, and emit a text when a day of batch time has passed without an order."""
    if state.isTimingOut:
        return f"gone after {state.get}"
    state.update((state.getOption or 0) + 1)
    return None


def pipeline(source: str, published: str, operators: int = 3) -> tm.Pipeline:
    """Return the pipeline of the golden repository over the given folders. Its first batch ran with two operators."""
    p = tm.Pipeline("orders")
    files = tm.Files(source, format="csv", header=True, schema=SCHEMA, mode="PERMISSIVE", maxFilesPerTrigger=1)
    orders = p.read(files, name="shop").withWatermark("at", "10 minutes", late="quarantine")
    closing = orders.groupBy("customer").mapWithState(
        tm.StateSpec.function(visits).timeout("1 hour", clock="event"), name="visits",
        stateSchema="orders long, total decimal(12,2)",
        outputSchema="customer string, orders long, total decimal(12,2), closed boolean",
    )  # fmt: skip
    closing.write(tm.Json(published, partitionBy="closed"))
    orders.groupBy("country").agg(
        name="by-country", orders=tm.count(), total=tm.sum("amount"), mean=tm.mean("amount"), last=tm.max("at")
    )
    if operators == 3:
        orders.groupBy("country", "customer").mapWithState(
            tm.StateSpec.function(seen).timeout("1 day"), name="seen",
            stateSchema="long", outputSchema="string", value="amount",
        )  # fmt: skip
    return p


FIRST_CODE = pipeline("input", "published", operators=2)
CODE = pipeline("input", "published")


def ms(time: str) -> int:
    """ISO text, UTC, as ms."""
    return int(datetime.fromisoformat(f"{time}+00:00").timestamp() * 1000)


def arrive(folder: Path, name: str, rows: str, time: str) -> None:
    """An input file, with the time at which it arrived."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(HEADER + rows, encoding="utf-8")
    os.utime(folder / name, ns=(ms(time) * 1_000_000,) * 2)


def opened(code: str) -> tm.Repository:
    """Return the repository, by the reference of its code."""
    return tm.open(load(f"tests.golden.make:{code}"), root="root")


def batch(repository: tm.Repository, time: str, tasks: int = 1) -> None:
    """One batch at a given time."""
    repository.run(engine="local", max_batches=1, batch_time=ms(time), tasks=tasks)


def fails(call: Callable[[], None], word: str) -> None:
    """Check that `call` raises an error that contains `word`."""
    try:
        call()
    except tm.InvalidInput as error:
        if word not in str(error):
            raise
        return
    raise SystemExit(f"expected an error with `{word}`")


def make() -> None:
    """Write the golden repository, its input and its published files below the working folder.

    The commits are: init, a batch with an unreadable row, init with one more operator, a batch with a late row and
    due timeouts, an abandoned plan, a batch, and a sweep.
    """
    source = Path("input")
    arrive(source, "01.csv", FIRST, "2024-03-01T09:58:00")
    repository = opened("FIRST_CODE")
    repository.init()
    batch(repository, "2024-03-01T10:00:00", tasks=2)

    repository = opened("CODE")
    repository.init()
    arrive(source, "02.csv", SECOND, "2024-03-01T10:28:00")
    batch(repository, "2024-03-01T10:30:00")

    arrive(source, "03.csv", WRONG, "2024-03-01T10:58:00")
    fails(lambda: batch(repository, "2024-03-01T10:59:00"), "a negative amount")
    repository.replan("03.csv had a negative amount")
    arrive(source, "03.csv", THIRD, "2024-03-01T10:59:30")
    batch(repository, "2024-03-01T11:00:00", tasks=3)
    repository.sweep(engine="local", batch_time=ms("2024-03-02T10:45:00"))


def main() -> None:
    """Make the folder, unless it exists."""
    if FOLDER.exists():
        raise SystemExit(f"{FOLDER.name} is there: golden files are never regenerated; a new format gets a new folder")
    PLACE.mkdir()
    with contextlib.chdir(PLACE):
        make()
        for name in ("input", "published", "root"):
            shutil.copytree(PLACE / name, FOLDER / name, ignore=shutil.ignore_patterns(".tmp"))
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    main()
