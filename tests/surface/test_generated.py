"""What `python -m tests.surface.generate` writes is current, and an option of an action is an argument everywhere."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from pathlib import Path

import click
import pytest

import tidemill as tm
from tests.surface import generate
from tests.surface.registered import register
from tidemill.actions.contract import Action, Option, option, options_of
from tidemill.actions.registry import ACTIONS
from tidemill.actions.rewind import Rewind
from tidemill.cli.act import command_of

WRITTEN = [
    generate.METHODS,
    generate.OPERATORS,
    generate.FORMS,
    generate.CORRECTIONS,
    generate.OWN_DAGS,
    generate.REFERENCE,
]


@pytest.mark.parametrize("path", WRITTEN, ids=str)
def test_it_is_current(path: Path) -> None:
    written, now = path.read_text("utf-8"), generate.generated()[path]
    differences = list(difflib.unified_diff(written.splitlines(), now.splitlines(), "written", "now", n=2))
    assert not differences, "\n".join([*differences, "run python -m tests.surface.generate"])


@pytest.mark.parametrize("action", list(ACTIONS.values()), ids=list(ACTIONS))
def test_fields_of_an_action_are_arguments_of_its_method(action: type[Action]) -> None:
    method = inspect.signature(getattr(tm.Repository, action.verb))
    fields = {name for name, said, _ in options_of(action) if said.in_python}
    assert fields == set(method.parameters) - {"self", "dry_run", "expect", "if_needed"}
    assert all(f"`{name}`" in (getattr(tm.Repository, action.verb).__doc__ or "") for name in fields)
    for name, _, default in options_of(action):
        if name in method.parameters and default is not dataclasses.MISSING:
            assert method.parameters[name].default == default, name


def test_a_new_option_is_an_argument_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(Rewind):
        note: str | None = option(Option("A note.", form="a note."), None)
        loud: bool = option(Option("Say it loudly.", parsed="flag"), False)

    More.__module__ = Rewind.__module__
    form = register(monkeypatch, More)
    now = generate.generated()
    assert now[generate.METHODS].count("note: str | None = None,") == 3
    assert "note=note" in now[generate.METHODS]
    assert "note: str | None = None," in now[generate.OPERATORS]
    assert "loud: str | bool = False" in now[generate.OPERATORS], "a template is text"
    assert "loud: bool = False" in now[generate.METHODS]
    assert form.helps()["note"] == ("rewind: a note.", False)
    assert form.fault_of("rewind", {"to_version": 3, "note": "x"}) is None
    assert "`loud` is not a field of rewind" in form.fault_of("rewind", {"to_version": 3, "loud": True})
    assert form.command_line("rewind", {"note": "x", "loud": True}) == ({"note": "x", "loud": True}, [])
    assert "`source`, `note`" in next(one for one in now[generate.FORMS].splitlines() if "| `correction`, " in one)
    command = command_of("rewind")
    shown = " ".join(command.get_help(click.Context(command)).split())
    assert "--note TEXT A note." in shown and "--loud Say it loudly." in shown
    assert "self.note = note" in now[generate.OPERATORS]
    assert "| `rewind` | `to_version`, `without`, `source`, `note`, `loud`, `reason`" in now[generate.OWN_DAGS]
    assert "| `to_version` (required), `without`, `source`, `note` |" in now[generate.CORRECTIONS]


def test_an_order_of_arguments_that_python_does_not_allow_is_refused() -> None:
    class Wrong(Rewind):
        argument_order = ("without", "to_version", "reason")

    with pytest.raises(AssertionError, match="`to_version` is required"):
        list(generate.python_arguments(Wrong))
