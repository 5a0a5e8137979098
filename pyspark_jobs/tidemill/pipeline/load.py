"""Loads the pipeline that a reference names: `module:name`, `path.py:name` or `path.py`. This runs the user's file.

A file is loaded as a module under a name that workers cannot import, so `Loaded` lists it as one to ship by value.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..counts import listed_names
from ..errors import InvalidInput, TidemillError
from ..spelling import nearest
from ..values import dataclass
from .pipeline import Pipeline


@dataclass(frozen=True)
class Loaded:
    """A pipeline, and how workers find its code: modules to ship by value, and folders to import from."""

    pipeline: Pipeline
    reference: str
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadedFunction:
    """A function, and the module to ship to workers by value, if it is not importable."""

    function: Callable[..., Any]
    modules: tuple[str, ...] = ()


def load(reference: str) -> Loaded:
    """Return the pipeline of `module:name` or `path.py:name`, or the only one of `path.py`.

    `InvalidInput` says what is missing, or names the pipelines of a file that has several.
    """
    place, name = (reference, "") if reference.endswith(".py") else _parts("pipeline", reference)
    is_file = place.endswith(".py")
    module = _file(place, "pipeline", reference) if is_file else _module(place, "pipeline", reference)
    name = name or _only_pipeline(module, reference)
    found = getattr(module, name, None)
    if not isinstance(found, Pipeline):
        names = [key for key, value in vars(module).items() if isinstance(value, Pipeline)]
        close = nearest(name, names) or (names[0] if names else None)
        raise InvalidInput(
            f"pipeline reference {reference!r}: `{name}` is "
            + ("not defined" if found is None else f"a {type(found).__name__}, expected a tidemill.Pipeline"),
            hint=f"use `{place}:{close}`" if close else "define a pipeline: p = tm.Pipeline('name')",
        )
    if is_file:
        return Loaded(found, f"{place}:{name}", (module.__name__,), (str(Path(place).resolve().parent),))
    return Loaded(found, reference, (), search_paths())


def _only_pipeline(module: ModuleType, reference: str) -> str:
    """Return the name of the only pipeline of a module. Several names of one pipeline are one."""
    named = {id(value): key for key, value in reversed(vars(module).items()) if isinstance(value, Pipeline)}
    names = sorted(named.values())
    if len(names) == 1:
        return names[0]
    if not names:
        raise InvalidInput(
            f"pipeline reference {reference!r}: the file has no pipeline",
            hint="define one at the top of the file: p = tm.Pipeline('name')",
        )
    raise InvalidInput(
        f"pipeline reference {reference!r}: the file has {len(names)} pipelines, {listed_names(names)}",
        hint=f"name one of them: `{reference}:{names[0]}`",
    )


def load_function(reference: str) -> LoadedFunction:
    """Return the function of `module:name` or `path.py:name`. A file that is loaded already is not run again."""
    place, name = _parts("function", reference)
    is_file = place.endswith(".py")
    module = None
    if is_file:
        known = sys.modules.get(_module_name(Path(place).resolve()))
        is_loaded = known is not None and getattr(known, "__file__", None) == str(Path(place).resolve())
        module = known if is_loaded else _file(place, "function", reference)
    else:
        module = _module(place, "function", reference)
    assert module is not None
    found = getattr(module, name, None)
    if not callable(found):
        close = nearest(name, [key for key, value in vars(module).items() if callable(value)])
        raise InvalidInput(
            f"function reference {reference!r}: `{name}` is "
            + ("not defined" if found is None else f"a {type(found).__name__}, expected a function"),
            hint=f"use `{place}:{close}`" if close else None,
        )
    return LoadedFunction(found, (module.__name__,) if is_file else ())


def _parts(what: str, reference: str) -> tuple[str, str]:
    place, separator, name = reference.rpartition(":")
    if not separator or not place or not name:
        raise InvalidInput(
            f"{what} reference {reference!r}: expected `module:name` or `path.py:name`"
            + (", or `path.py` of a file with one pipeline" if what == "pipeline" else "")
        )
    return place, name


def _module_name(path: Path) -> str:
    return f"tidemill_pipeline_{path.stem}"


def search_paths() -> tuple[str, ...]:
    """Return where this process finds modules. Workers on the same machine look there too."""
    return tuple(path or os.getcwd() for path in sys.path)


def _file(place: str, what: str, reference: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise InvalidInput(f"{what} reference {reference!r}: file `{path}` does not exist")
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{what} reference {reference!r}: `{path}` cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name, None)
        raise _raised(error, str(path), f"{what} reference {reference!r}") from error
    return module


def _module(place: str, what: str, reference: str) -> ModuleType:
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(place)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            raise InvalidInput(
                f"{what} reference {reference!r}: no module named `{error.name}`",
                hint="give a file instead (path.py:name), or install the module",
            ) from error
        raise _raised(error, f"module `{place}`", f"{what} reference {reference!r}") from error


def _raised(error: Exception, ran: str, where: str) -> TidemillError:
    """Return the error for an exception of the user's code while it was loaded. Our own errors pass unchanged."""
    if isinstance(error, TidemillError):
        return error
    frames = error.__traceback__
    while frames is not None and _is_loading(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    trace = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
    return InvalidInput(f"{where}: running {ran} raised `{type(error).__name__}: {error}`\n{trace}")


def _is_loading(path: str) -> bool:
    return path in (__file__, importlib.__file__) or path.startswith("<frozen importlib")
