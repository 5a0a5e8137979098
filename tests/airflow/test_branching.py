"""The operators of branches: the commands that they start, and what they make of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.airflow.test_pull_request import against, keys
from tidemill.airflow.calls.command import Command, Outcome
from tidemill.airflow.tasks.pull_request import branch_of_run
from tidemill.errors import Exit

RUN = "manual__2026-11-25T09:36:32+00:00"
OURS = branch_of_run("mine", RUN)


@pytest.fixture
def make(airflow_home: Path) -> Any:
    """Make an operator of `tidemill.airflow` by the middle of its name, in a DAG."""
    from airflow.sdk import DAG

    import tidemill.airflow

    def operator(kind: str, **arguments: Any) -> Any:
        with DAG("mine", schedule=None):
            of = getattr(tidemill.airflow, f"Tidemill{kind}Operator")
            return of(task_id="t", pipeline="/code/retail.py:p", root="s3://lake", **arguments)

    return operator


def command(operator: Any) -> list[str]:
    """The arguments that differ from operator to operator: those after `--json`, and the verb before."""
    made: Command = operator._command({"dag": operator.dag, "run_id": RUN})
    verb, root, as_json, *rest = made.arguments()
    assert (root, as_json) == ("--root=s3://lake", "--json")
    return [verb, *rest]


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("Branch", {"name": "fix", "at": 1}, "branch --branch=main --at=1 --if-needed --yes -- fix"),
        ("Branch", {"at": "-1"}, f"branch --branch=main --at=-1 --if-needed --yes -- {OURS}"),
        ("Branch", {"at": 0, "name": "None"}, f"branch --branch=main --at=0 --if-needed --yes -- {OURS}"),
        (
            "Branch",
            {"name": "fix", "publish_to": "/out", "reason": "a"},
            "branch --branch=main --publish-to=/out --reason=a --if-needed --yes -- fix",
        ),
        ("Branch", {"drop": True}, f"branch --branch=main --drop --if-needed --yes -- {OURS}"),
        ("Branch", {"report_only": "True"}, f"branch --branch=main --dry-run -- {OURS}"),
        (
            "Branch",
            {"name": "fix", "drop": True, "expect": "refs:0f"},
            "branch --branch=main --drop --if-needed --yes --expect=refs:0f -- fix",
        ),
        ("Replay", {"from_version": 0}, f"replay --from=0 --into={OURS} --branch=main --engine=auto --"),
        (
            "Replay",
            {"from_version": 1, "to_version": "9", "into": "fix", "operators": ["a", "b"], "follow": "True"},
            "replay --from=1 --to=9 --into=fix --branch=main --engine=auto --operators=a --operators=b --follow --",
        ),
        (
            "Replay",
            {"from_version": 1, "to_version": "None", "into": "fix", "operators": "a, b", "max_batches": 1},
            "replay --from=1 --into=fix --branch=main --engine=auto --operators=a,_b --max-batches=1 --",
        ),
        (
            "Promote",
            {},
            f"promote --branch=main --engine=auto --if-needed --yes --catch-up -- {OURS}",
        ),
        (
            "Promote",
            {
                "name": "fix",
                "catch_up": False,
                "outputs": "keep",
                "reason": "why",
                "branch": "trial",
                "engine": "local",
            },
            "promote --branch=trial --engine=local --reason=why --if-needed --yes --outputs=keep -- fix",
        ),
        (
            "Promote",
            {"name": "fix", "report_only": "True", "drop": ["a", "b"]},
            "promote --branch=main --engine=auto --dry-run --catch-up --drop=a --drop=b -- fix",
        ),
        (
            "Promote",
            {"name": "fix", "expect": "main@3:0f"},
            "promote --branch=main --engine=auto --if-needed --yes --expect=main@3:0f -- fix",
        ),
        ("Maintain", {}, "maintain --branch=main --engine=local --yes --"),
        (
            "Maintain",
            {"keep": ["9 days", "a=1 day"], "keep_versions": 3, "time_budget": "60", "report_only": True},
            "maintain --branch=main --engine=local --dry-run --keep=9_days --keep=a=1_day --keep-versions=3 "
            "--time-budget=60 --",
        ),
        (
            "Maintain",
            {"compact_sinks": "True", "sink_file_size": "1 MiB", "reason": "why", "expect": "refs:0f"},
            "maintain --branch=main --engine=local --reason=why --yes --expect=refs:0f --compact-sinks "
            "--sink-file-size=1_MiB --",
        ),
        ("Check", {}, "check --branch=main --"),
        (
            "Check",
            {"against": "fix", "tolerance": 0.5, "fail_if_different": True},
            "check --branch=main --against=fix --tolerance=0.5 --fail-if-different --",
        ),
        ("Diff", {}, f"check --branch=main --against={OURS} --"),
    ],
)
def test_operator_starts_its_command(make: Any, kind: str, arguments: dict[str, Any], expected: str) -> None:
    found = command(make(kind, **arguments))
    at = found.index("--")
    assert found[at + 1] == "/code/retail.py:p"
    assert [one.replace(" ", "_") for one in found[: at + 1] + found[at + 2 :]] == expected.split()


@pytest.mark.parametrize("kind", ["Promote", "Maintain", "Branch"])
@pytest.mark.parametrize("expect", ["", " ", "None", False, True, 7])
def test_an_agreement_that_a_template_made_nothing_of_is_refused(make: Any, kind: str, expect: Any) -> None:
    with pytest.raises(AirflowFailException, match="expected what a dry run requires; nothing was done"):
        command(make(kind, name="fix", expect=expect) if kind != "Maintain" else make(kind, expect=expect))


@pytest.mark.parametrize("kind", ["Promote", "Maintain"])
@pytest.mark.parametrize("text", ["yes", "1", "on", ["True"], 1])
def test_a_flag_that_is_neither_true_nor_false_is_refused(make: Any, kind: str, text: Any) -> None:
    with pytest.raises(AirflowFailException, match="report_only is .*, expected true or false"):
        command(make(kind, report_only=text))
    flag = {"Promote": "catch_up", "Maintain": "compact_sinks"}[kind]
    with pytest.raises(AirflowFailException, match=f"{flag} is .*, expected true or false"):
        command(make(kind, **{flag: text}))


@pytest.mark.parametrize("text", ["TRUE", " true ", "True", True])
def test_a_flag_may_be_text_in_any_case(make: Any, text: Any) -> None:
    assert "--dry-run" in command(make("Maintain", report_only=text))


def test_a_reason_that_looks_like_a_flag_is_a_reason(make: Any) -> None:
    found = command(make("Maintain", reason="True", keep_versions="True"))
    assert "--reason=True" in found and "--keep-versions=True" in found


@pytest.mark.parametrize("kind", ["Branch", "Replay", "Promote", "Check", "Diff", "Maintain"])
def test_arguments_are_templates_and_other_arguments_are_refused(make: Any, kind: str) -> None:
    given = {"from_version": 0} if kind == "Replay" else {}
    own = {"branch", "engine", "name", "at", "publish_to", "drop", "reason", "from_version", "to_version", "into"}
    own |= {"operators", "files", "follow", "max_batches", "time_budget", "catch_up", "outputs", "against"}
    own |= {"keep", "keep_versions", "compact_sinks", "sink_file_size", "report_only", "expect", "accept_output_change"}
    own |= {"tolerance", "fail_if_different"}
    operator = make(kind, **given)
    assert own & set(vars(operator)) == own & set(operator.template_fields)
    with pytest.raises(TypeError, match="nonsense"):
        make(kind, nonsense=1, **given)
    if kind in ("Branch", "Check", "Diff"):
        with pytest.raises(TypeError, match="engine"):
            make(kind, engine="local")


def outcome(exit_status: int = 0, /, **result: Any) -> Outcome:
    return Outcome(status=exit_status, result={"event": "result", "verb": "x", "head": 3, **result})


def test_result_of_the_command_is_the_xcom(make: Any) -> None:
    made = outcome(name="fix", fork_version=2, fork_branch="main")
    assert make("Branch")._returned(made) == {"head": 3, "name": "fix", "fork_version": 2, "fork_branch": "main"}
    assert make("Branch").multiple_outputs and not make("Branch", multiple_outputs=False).multiple_outputs


@pytest.mark.parametrize(
    ("kind", "arguments", "found", "said"),
    [
        ("Branch", {}, outcome(name="f", fork_version=2, fork_branch="main"),
         "branch `f` starts at version 2 of `main`"),
        (
            "Branch",
            {},
            outcome(3, name="f", fork_version=2, fork_branch="main"),
            "branch `f` is there already, and starts at version 2 of `main`",
        ),
        ("Branch", {"drop": True}, outcome(name="f"), "dropped branch `f`"),
        ("Branch", {"drop": True, "report_only": True}, outcome(name="f"), "nothing is changed yet"),
        ("Branch", {"drop": "True"}, outcome(3, name="f"), "there is no branch `f`"),
        ("Replay", {"from_version": 0}, outcome(branch="f", replayed=[0, 1], left=1),
         "replayed versions 0–1 into `f`; 1 version left"),
        ("Replay", {"from_version": 0}, outcome(branch="f", replayed=[0, 1], left=0),
         "replayed versions 0–1 into `f`; 0 versions left"),
        ("Replay", {"from_version": 0}, outcome(3, branch="f", replayed=[], left=0),
         "nothing left to replay into `f`"),
        ("Promote", {}, outcome(branch="f", versions=[4], replaced=[1, 2]), "promoted `f` in version 4"),
        ("Promote", {}, outcome(3, branch="f", already_committed=[4]), "`f` was promoted before, in version 4"),
    ],
)  # fmt: skip
def test_first_line_says_what_was_done(make: Any, kind: str, arguments: Any, found: Outcome, said: str) -> None:
    assert make(kind, **arguments)._summary(found)[0] == f"tidemill: {said}"


def test_diff_succeeds_whatever_it_finds_and_returns_a_page(make: Any) -> None:
    changes = against(operators={"o": keys(4, changed=1, largest=[{"key": {"k": "Joe"}, "column": "n", "before": 1,
                                                                  "after": 2}])})  # fmt: skip
    found = outcome(1, status="needs migration", against=changes)
    diff = make("Diff")
    assert found.status in diff.accepted
    returned = diff._returned(found)
    assert (returned["status"], returned["is_equal"]) == ("needs migration", False)
    assert "| `o` | 3 | 1 | 0 | 0 |" in returned["markdown"] and "Joe" in returned["markdown"]
    assert "Joe" not in str(make("Diff", largest_changes=False)._returned(found))


def test_check_that_fails_is_final_and_says_why(make: Any) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    check = make("Check")
    assert check._returned(outcome(0, status="compatible"))["status"] == "compatible"
    with pytest.raises(AirflowFailException, match=r"the check of the code says: needs init\noperator `o` is new"):
        check._returned(outcome(1, status="needs init", differences=[{"message": "operator `o` is new"}]))


def test_check_against_a_branch_that_cannot_be_promoted_fails_and_says_why(make: Any) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    refusal = "version 1, which it repeats, was rewound"
    found = {"branch": "fix", "before": "main@2", "after": "fix@2", "behind": [], "refusal": refusal, "hint": "",
             "is_promotable": False, "is_equal": True, "operators": {}, "sinks": {}, "problems": {}}  # fmt: skip
    with pytest.raises(AirflowFailException, match="it cannot be promoted: version 1, which it repeats, was rewound"):
        make("Check")._returned(outcome(1, status="compatible", against=found))


@pytest.mark.parametrize(("kind", "is_final"), [("Promote", False), ("Replay", True), ("Branch", True)])
def test_promotion_that_loses_a_race_is_retried(make: Any, kind: str, is_final: bool) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    operator = make(kind, **({"from_version": 0} if kind == "Replay" else {}))
    lost = Outcome(status=Exit.FENCED, error={"event": "error", "kind": "Fenced", "message": "lost", "versions": []})
    raised = operator._exception(operator._command({"dag": operator.dag, "run_id": RUN}), lost)
    assert isinstance(raised, AirflowFailException) is is_final
    wrong = Outcome(status=1, error={"event": "error", "kind": "InvalidInput", "message": "no", "versions": []})
    raised = operator._exception(operator._command({"dag": operator.dag, "run_id": RUN}), wrong)
    assert isinstance(raised, AirflowFailException)
