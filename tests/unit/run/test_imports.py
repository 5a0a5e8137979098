"""Which modules functions import when they are called."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from tidemill.run.workers import imported

CODE = """
def helper():
    import croniter.croniter

def plain(row):
    import json, duckdb
    from pyarrow import compute
    import no_such_module_anywhere
    return row

def calls(row):
    return helper()

def nests(row):
    return [(lambda: __import__, __import__("numpy"))[0] for _ in (lambda: inner())()]

def inner():
    from . import beside
    import boto3.session

class Processor:
    def handle(self):
        return calls(1)
"""


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("a_pipeline_file")
    monkeypatch.setitem(sys.modules, "a_pipeline_file", module)
    exec(CODE, module.__dict__)  # noqa: S102 - functions of a module as a pipeline file has them
    return module


def test_imports_in_a_body_are_found_unless_they_are_pythons_own_or_missing_here(code: types.ModuleType) -> None:
    assert imported([code.plain], ["a_pipeline_file"]) == {"duckdb", "pyarrow"}


def test_functions_that_are_shipped_are_followed_and_others_are_not(code: types.ModuleType) -> None:
    assert imported([code.calls], ["a_pipeline_file"]) == {"croniter"}
    assert imported([code.calls], []) == set()
    assert imported([code.nests], ["a_pipeline_file"]) == {"boto3"}


@pytest.mark.parametrize("kind", [lambda one: one, lambda one: one().handle])
def test_methods_are_followed(code: types.ModuleType, kind: Callable[[Any], Any]) -> None:
    assert imported([kind(code.Processor)], ["a_pipeline_file"]) == {"croniter"}


def test_closures_are_followed_and_recursion_ends() -> None:
    def first(count: int) -> Any:
        import duckdb

        return second(count, duckdb)

    def second(count: int, _: Any) -> Any:
        return first(count - 1) if count else None

    assert imported([lambda: second(3, None), print, len], [__name__]) == {"duckdb"}
