"""Emit one row per customer and batch: the running total, and the year of the first order (`mapGroupsWithState`).

The state is a dataclass. Customers from before the first batch are given as initial state.

Prints:

    [('ann', 40.0, 'since 2019'), ('bob', 100.0, 'since 2015')]
    [('ann', 45.0, 'since 2019'), ('bob', 100.0, 'since 2015'), ('cid', 1.0, 'since 2024')]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tidemill as tm
from tidemill.testing import Tester


@dataclass(frozen=True)
class Customer:
    """The state of a customer."""

    total: float
    year: int


def running(name: str, orders: Iterator[Any], state: tm.GroupState) -> tuple[str, float, str]:
    """Emit the customer's total. It is also called without orders, in the first batch, for the initial states."""
    known = state.getOption or Customer(0.0, 2024)
    known = Customer(known.total + sum(order.amount for order in orders), known.year)
    state.update(known)
    return name, known.total, f"since {known.year}"


p = tm.Pipeline("customers")
p.read(tm.Rows("customer string, amount double")).groupBy("customer").mapGroupsWithState(
    running,
    outputSchema="customer string, total double, since string",
    stateSchema=Customer,
    initialState=[("ann", Customer(30.0, 2019)), ("bob", Customer(100.0, 2015))],
)

if __name__ == "__main__":
    tester = Tester(p)
    print(sorted(tester.batch([("ann", 10.0)]).outputs))
    tester.batch([("cid", 1.0), ("ann", 5.0)])
    print([(name, one.total, f"since {one.year}") for name, one in sorted(tester.batch([]).state.items())])
