"""The operators of corrections and of verify: the commands that they start, and what they make of a result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.airflow.test_branching import command, make
from tidemill.airflow.calls.command import Command, Outcome
from tidemill.errors import Exit

__all__ = ["make"]

DRY = {"reason": "why", "report_only": "True"}
WHY = {"reason": "why"}


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("Replan", WHY, "replan --branch=main --reason=why --if-needed --yes --"),
        ("Replan", {**DRY, "branch": "trial"}, "replan --branch=trial --reason=why --dry-run --"),
        ("Rewind", {"to_version": 3, **WHY}, "rewind --branch=main --reason=why --if-needed --yes --to=3 --"),
        (
            "Rewind",
            {"to_version": "good", "without": ["a.csv", "b c.csv"], "source": "shop", **DRY},
            "rewind --branch=main --reason=why --dry-run --to=good --without=a.csv --without=b_c.csv --source=shop --",
        ),
        (
            "Rewind",
            {"to_version": "0", "without": "a.csv\n-b.csv\n", "source": "None", **WHY},
            "rewind --branch=main --reason=why --if-needed --yes --to=0 --without=a.csv --without=-b.csv --",
        ),
        ("Skip", {"file": "-a.csv", **WHY}, "skip --branch=main --reason=why --if-needed --yes -- -a.csv"),
        ("Reset", {"watermark": 5, **WHY}, "reset --branch=main --reason=why --if-needed --yes --watermark=5 --"),
        (
            "Reset",
            {"watermark": ["a=1", "b=2"], "batch_time": "None", **DRY},
            "reset --branch=main --reason=why --dry-run --watermark=a=1 --watermark=b=2 --",
        ),
        (
            "Replan",
            {"expect": "main@3:0f", **WHY},
            "replan --branch=main --reason=why --if-needed --yes --expect=main@3:0f --",
        ),
        ("Verify", {}, "verify --branch=main --"),
        ("Verify", {"deep": True, "forgotten": "True"}, "verify --branch=main --deep --forgotten --"),
    ],
)
def test_operator_starts_its_command(make: Any, kind: str, arguments: dict[str, Any], expected: str) -> None:
    found = command(make(kind, **arguments))
    at = found.index("--")
    assert found[at + 1] == "/code/retail.py:p"
    assert [one.replace(" ", "_") for one in found[: at + 1] + found[at + 2 :]] == expected.split()


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("Rewind", {"to_version": 0, **WHY}),
        ("Skip", {"file": "a", **WHY}),
        ("Replan", WHY),
        ("Reset", {"watermark": 0, **WHY}),
        ("Verify", {}),
    ],
)
def test_arguments_are_templates_and_required_ones_are_required(make: Any, kind: str, given: dict[str, Any]) -> None:
    operator = make(kind, **given)
    own = {"reason", "report_only", "to_version", "without", "source", "file", "watermark", "batch_time", "deep"}
    own |= {"forgotten", "branch"}
    assert own & set(vars(operator)) == own & set(operator.template_fields)
    with pytest.raises(TypeError, match="engine"):
        make(kind, engine="local", **given)
    if kind != "Verify":
        with pytest.raises(TypeError, match="reason"):
            make(kind, **{name: value for name, value in given.items() if name != "reason"})


def test_if_another_run_commits_first_a_correction_is_tried_again(make: Any) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    operator = make("Replan", **WHY)
    made: Command = operator._command({"dag": operator.dag, "run_id": "r"})
    fenced = Outcome(status=Exit.FENCED, error={"kind": "Fenced", "message": "another run commits"})
    assert type(operator._exception(made, fenced)) is AirflowException
    agreed = make("Replan", expect="main@3:0f", **WHY)
    assert type(agreed._exception(made, fenced)) is AirflowFailException, "what was agreed to does not come again"
    refused = Outcome(status=Exit.FAILED, error={"kind": "InvalidInput", "message": "no plan"})
    assert type(operator._exception(made, refused)) is AirflowFailException


def test_result_says_what_was_done_and_by_which_try(make: Any) -> None:
    operator, dry = make("Replan", **WHY), make("Replan", **DRY)
    result = {"event": "result", "verb": "replan", "versions": [4], "changes": ["the plan ends"]}
    done = Outcome(status=0, result=result)
    assert operator._summary(done) == ["tidemill: corrected in version 4", "tidemill: the plan ends"]
    assert dry._summary(done) == ["tidemill: nothing is changed yet", "tidemill: the plan ends"]
    assert operator._returned(done) == {"versions": [[4, 4]], "changes": ["the plan ends"]}
    again = Outcome(status=3, result={**result, "versions": [], "already_committed": [4]})
    assert operator._summary(again) == ["tidemill: an earlier try made this correction, in version 4"]
