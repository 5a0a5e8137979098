"""Registers an action of a test, in its module, and derives again what the product derives from the registry."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.surface import generate
from tidemill.actions import registry
from tidemill.actions.contract import Action
from tidemill.airflow.tasks import correction_form


def register(monkeypatch: pytest.MonkeyPatch, action: type[Action]) -> ModuleType:
    """Register an action, as its line in the registry would, and return the form of corrections with it.

    An action with the verb of a known one takes its place.
    """
    if action.verb in registry.FOLLOWS:
        registry.action_of(action.verb)  # imports its module
        monkeypatch.setattr(sys.modules[f"tidemill.actions.{action.verb}"], action.verb.capitalize(), action)
    else:
        monkeypatch.setitem(registry.FOLLOWS, action.verb, "log")
        monkeypatch.setitem(sys.modules, f"tidemill.actions.{action.verb}", sys.modules[action.__module__])
    monkeypatch.setitem(registry.ACTIONS, action.verb, action)
    form = _loaded_again(correction_form)
    monkeypatch.setattr(generate, "ARGUMENTS", form.ARGUMENTS)
    monkeypatch.setattr(generate, "FIELDS", form.FIELDS)
    return form


def _loaded_again(module: ModuleType) -> ModuleType:
    """Return another module with the same code, carried out now. The one that others have imported stays as it is."""
    assert module.__spec__ is not None and module.__spec__.origin is not None
    spec = importlib.util.spec_from_file_location(module.__name__, module.__spec__.origin)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
