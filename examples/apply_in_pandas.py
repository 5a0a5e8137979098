"""Run a Structured Streaming job with its `applyInPandasWithState` function unchanged.

The query `df.groupBy("user").applyInPandasWithState(…).writeStream…start()` becomes a pipeline. The function, its
schemas and its modes stay the same.

Prints:

    [('ann', 30.0, 2), ('bob', 5.0, 1)]
    [('ann', 31.5, 3)]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tidemill as tm
from tidemill.testing import Tester


def total(key: tuple[str], pdfs: Iterator[Any], state: Any) -> Iterator[Any]:
    """Emit the sum and the number of a user's payments so far."""
    import pandas as pd

    (user,) = key
    amount, payments = state.get if state.exists else (0.0, 0)
    for pdf in pdfs:
        amount += float(pdf["amount"].sum())
        payments += len(pdf)
    state.update((amount, payments))
    yield pd.DataFrame({"user": [user], "amount": [amount], "payments": [payments]})


p = tm.Pipeline("payments")
p.read(tm.Rows("user string, amount double")).groupBy("user").applyInPandasWithState(
    total,
    outputStructType="user string, amount double, payments long",
    stateStructType="amount double, payments long",
    outputMode="update",
    timeoutConf="NoTimeout",
)

if __name__ == "__main__":
    tester = Tester(p)
    print(sorted(tester.batch([("ann", 10.0), ("bob", 5.0), ("ann", 20.0)]).outputs))
    print(sorted(tester.batch([("ann", 1.5)]).outputs))
