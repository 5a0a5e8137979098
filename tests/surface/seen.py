"""What users see of Tidemill without running it: helps, signatures, and the fields of Airflow's operators."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import click


def helps() -> str:
    """The help of every command."""
    from tidemill.cli.main import COMMANDS, tidemill

    names = ["-h", "--help"]
    group = click.Context(tidemill, info_name="tidemill", terminal_width=100, help_option_names=names)
    found = [tidemill.get_help(group)]
    for name in COMMANDS:
        command = tidemill.get_command(group, name)
        assert command is not None
        context = click.Context(command, parent=group, info_name=name, terminal_width=100)
        found.append(f"# {name}\n\n{command.get_help(context)}")
    return "\n\n".join(found) + "\n"


def signatures() -> str:
    """Every public name with its signature, and the public methods, properties and fields of classes."""
    import tidemill
    from tidemill import testing

    return "".join(f"{line}\n" for module in (tidemill, testing) for line in _module(module))


def _module(module: ModuleType) -> Iterator[str]:
    own = [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
    for name in sorted(getattr(module, "__all__", own)):
        if name.startswith("_"):
            continue
        one = getattr(module, name)
        where = f"{module.__name__}.{name}"
        if isinstance(one, ModuleType):
            continue
        yield f"{where}{signature(one)}"
        if inspect.isclass(one):
            yield from (f"  {where}.{line}" for line in members(one))


def members(kind: type) -> Iterator[str]:
    """The public members of a class that are its own or a base's in Tidemill, with signatures."""
    fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    for field in fields:
        yield f"{field} (field)"
    for name, one in inspect.getmembers(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), kind)
        if name.startswith("_") or name in fields or not owner.__module__.startswith("tidemill"):
            continue
        yield f"{name}{signature(one)}" if callable(one) else name


def signature(one: Any) -> str:
    """The signature, without what depends on the process or the version of Python."""
    try:
        text = str(inspect.signature(one))
    except (TypeError, ValueError):
        return "(…)"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def airflow() -> str:
    """The operators, sensors, triggers, assets and settings of DAGs: signatures, template fields and defaults."""
    import tidemill.airflow as provider

    found = []
    for name in sorted(provider.__all__):
        one = getattr(provider, name)
        if isinstance(one, ModuleType):
            continue
        found.append(f"{name}{signature(one)}")
        if inspect.isclass(one):
            found += [f"  {line}" for line in templates(one)]
    freshness = provider.Freshness(lag=60)
    dags = provider.tidemill_dags("shop:p", root="/root", schedule="@daily", freshness=freshness, watch=True)
    for name, dag in dags.items():
        found.append(f"DAG {name}")
        params = {param: dag.params.get_param(param) for param in dag.params}
        found += [f"  param {param}: {one.schema}, default {_default(one)}" for param, one in params.items()]
        for task in dag.tasks:
            below = ", ".join(sorted(task.downstream_task_ids))
            found.append(f"  task {task.task_id}: {type(task).__name__} -> {below}".rstrip(" ->"))
    return "\n".join(found) + "\n"


def _default(param: Any) -> str:
    return repr(param.value) if param.has_value else "none"


def templates(operator: type) -> Iterator[str]:
    """The fields of an operator that are templates, and how they are shown."""
    for field in ("template_fields", "template_ext", "template_fields_renderers"):
        if hasattr(operator, field):
            yield f"{field}: {list(getattr(operator, field))}"
