"""Methods of a processor with wrong parameters are found when the pipeline is made, not by the first timer."""

from __future__ import annotations

from typing import Any

import pytest

import tidemill as tm

ROWS = {"init": ("handle",), "handleInputRows": ("key", "rows", "timerValues")}
NAMES = {**ROWS, "handleExpiredTimer": ("key", "timerValues", "expiredTimerInfo")}


def made(mode: str = "ProcessingTime", **methods: Any) -> Any:
    """A pipeline with a processor that has these methods beside those that every one needs."""
    needed = {"init": lambda self, handle: None, "handleInputRows": lambda self, key, rows, timers: iter(())}
    processor = type("Mine", (tm.StatefulProcessor,), needed | methods)()
    grouped = tm.Pipeline("timers").read(tm.Rows("k string")).groupBy("k")
    return grouped.transformWithState(processor, "k string", "update", mode)


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        ("handleExpiredTimer", lambda self, key: iter(())),
        ("handleExpiredTimer", lambda self, key, timerValues, expiredTimerInfo, more: iter(())),
        ("handleExpiredTimer", lambda self, *, key, timerValues, expiredTimerInfo: iter(())),
        ("handleInputRows", lambda self, key, rows: iter(())),
        ("init", lambda self: None),
    ],
)
def test_wrong_parameters_are_refused_by_name(method: str, wrong: Any) -> None:
    given = ", ".join(NAMES[method])
    with pytest.raises(tm.InvalidInput) as caught:
        made(**{method: wrong})
    assert f"transformWithState: `Mine.{method}` cannot be called with ({given}): " in caught.value.message
    assert caught.value.hint == f"declare it as `def {method}(self, {given})`"


@pytest.mark.parametrize(
    "right",
    [
        lambda self, a, b, c: iter(()),
        lambda self, *given: iter(()),
        lambda self, key, timers, expired, more=None: iter(()),
        staticmethod(lambda key, timers, expired: iter(())),
    ],
)
def test_other_names_and_more_defaults_are_accepted(right: Any) -> None:
    assert made(handleExpiredTimer=right).schema.names == ["k"]


def test_a_method_that_is_never_called_is_not_checked() -> None:
    assert made("None", handleExpiredTimer=lambda self: None).schema.names == ["k"]
