"""The Markdown of what a branch changes, and the name of the branch of a DAG run."""

from __future__ import annotations

from typing import Any

from tidemill.airflow.tasks.pull_request import branch_of_run, comparison_markdown, headline, without_values
from tidemill.names import check_name


def keys(keys: int, added: int = 0, removed: int = 0, changed: int = 0, **more: Any) -> dict[str, Any]:
    found = {"keys": keys, "added": added, "removed": removed, "changed": changed, "deadlines": 0, "largest": []}
    return {**found, "not_compared": [], "variables": {}, **more}


def rows(added: int = 0, removed: int = 0) -> dict[str, Any]:
    return {"added": added, "removed": removed, "not_compared": []}


def against(**more: Any) -> dict[str, Any]:
    found = {"branch": "fix", "before": "main@302", "after": "fix@302", "behind": [], "hint": ""}
    found |= {"is_equal": False, "is_promotable": True, "refusal": ""}
    return {**found, "operators": {}, "sinks": {}, "problems": {}, **more}


LARGEST = {"key": {"CustomerID": 12346.0}, "column": "state", "before": "154367.200", "after": "0.000"}


def test_keys_rows_and_largest_changes_are_tables() -> None:
    operators = {"spend": keys(4367, 2, 3, 1581, largest=[LARGEST]), "by-country": keys(38)}
    page = comparison_markdown(against(operators=operators, sinks={"spend": rows(171_627, 171_627)}))
    assert page == "\n".join([
        "**1,586 keys differ; 171,627 rows added, 171,627 removed**: `main@302` → `fix@302`.",
        "",
        "| operator | keys same | changed | new | gone |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| `spend` | 2,783 | 1,581 | 2 | 3 |",
        "| `by-country` | 38 | 0 | 0 | 0 |",
        "",
        "| sink | rows added | rows removed |",
        "| --- | ---: | ---: |",
        "| `spend` | 171,627 | 171,627 |",
        "",
        "Largest changes:",
        "",
        "| operator | column | key | before | after |",
        "| --- | --- | --- | ---: | ---: |",
        "| `spend` | `state` | `CustomerID 12346.0` | `154367.200` | `0.000` |",
    ])  # fmt: skip


def test_values_cannot_add_markup() -> None:
    change = {**LARGEST, "key": {"k": "a|b`c\n# title <b>"}, "after": "x" * 200}
    page = comparison_markdown(against(operators={"o": keys(1, changed=1, largest=[change])}))
    (line,) = [line for line in page.split("\n") if "title" in line]
    assert line.startswith("| `o` | `state` | `k a\\|b'c # title <b>` | `154367.200` | `xxx")
    assert len(line) < 140 and line.endswith("…` |")


def test_values_are_left_out_on_request() -> None:
    found = against(operators={"spend": keys(1, changed=1, largest=[LARGEST])})
    assert "12346" in comparison_markdown(found) and "12346" not in comparison_markdown(without_values(found))
    assert "12346" not in headline(found)


def test_no_difference_is_one_sentence() -> None:
    assert headline(against(is_equal=True)) == "**Nothing differs**: `main@302` → `fix@302`."


def test_warnings_come_before_the_tables() -> None:
    sinks = {"s": {**rows(), "not_compared": ["it has no rows"]}}
    page = comparison_markdown(
        against(behind=[303, 304], problems={"operator `x`": "no schema"}, sinks=sinks), "needs migration"
    )
    assert page.split("\n")[2:6] == [
        "- the code does not fit the branch: needs migration",
        "- operator `x` cannot be compared: no schema",
        "- `s`: not compared: it has no rows",
        "- not repeated yet: versions 303–304; a promotion replays them first",
    ]
    assert "- it cannot be promoted: version 3 was rewound" in comparison_markdown(
        against(is_promotable=False, refusal="version 3 was rewound")
    )


def test_files_and_sinks_that_are_gone_are_named_and_what_helps_is_said() -> None:
    gone = [{"source": "days", "path": "a|b.csv", "version": 3}]
    why = {"is_promotable": False, "refusal": "it was rewound", "hint": "replay into\na new branch"}
    page = comparison_markdown(against(behind=[303], left_out=gone, dropped_sinks=["old"], **why))
    assert page.split("\n")[2:5] == [
        "- the code does not have sink `old`: a promotion withdraws what it has published",
        "- left out: `a\\|b.csv` of source `days`, which version 3 has read; it was gone when the branch was replayed",
        "- it cannot be promoted: it was rewound; replay into a new branch",
    ]
    behind = comparison_markdown(against(behind=[303], hint="catch up first"))
    assert "cannot be promoted" not in behind
    assert "- not repeated yet: version 303; a promotion replays them first" in behind


def test_differences_come_first_among_many_operators() -> None:
    operators = {f"o{n}": keys(5, changed=int(n == 29)) for n in range(30)}
    page = comparison_markdown(against(operators=operators))
    assert "| `o29` | 4 | 1 | 0 | 0 |" in page and "`o25`" not in page and "and 10 more" in page


def test_deadlines_and_variables_are_named() -> None:
    page = comparison_markdown(against(operators={"o": keys(5, deadlines=2, variables={"seen": 3, "other": 0})}))
    assert "`o`: 2 keys with another deadline only; variable `seen`: 3 rows." in page


def test_every_run_has_a_branch_name_of_its_own() -> None:
    runs = ["manual__2026-11-25T09:36:32+00:00", "MANUAL__2026-11-25T09:36:32+00:00", "x" * 250, "x" * 249, "é", "é "]
    names = [branch_of_run("retail__replay", run) for run in runs]
    assert len(set(names)) == len(runs)
    assert [check_name(name, "branch") for name in names] == names
    assert branch_of_run("other", runs[0]) != names[0]
