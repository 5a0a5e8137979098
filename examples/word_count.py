"""Keep a running count of every word (`mapWithState`).

The function is that of Spark Streaming's StatefulNetworkWordCount. It is called for each word with the word's state,
and its result is emitted.

Prints:

    batch 0: [('hello', 1), ('hello', 2), ('world', 1)]
    batch 1: [('spark', 1), ('hello', 3)]
    state: {'spark': 1, 'hello': 3, 'world': 1}
"""

from __future__ import annotations

from typing import Any

import tidemill as tm
from tidemill.testing import Tester


def count(batchTime: int, word: str, one: int | None, state: Any) -> tuple[str, int]:
    """Emit the word and how often it has been seen."""
    total = (state.getOption or 0) + (one or 0)
    state.update(total)
    return word, total


p = tm.Pipeline("word-count")
words = p.read(tm.Rows("line string")).sql("SELECT unnest(string_split(line, ' ')) AS word, 1 AS one FROM rows")
words.groupBy("word").mapWithState(
    tm.StateSpec.function(count), stateSchema="bigint", outputSchema="word string, count bigint", value="one"
)

if __name__ == "__main__":
    tester = Tester(p)
    for number, lines in enumerate((["hello world", "hello"], ["hello spark"])):
        done = tester.batch([(line,) for line in lines])
        print(f"batch {number}: {done.outputs}")
    print(f"state: {done.state}")
