"""Run by test_engine_shipping.py as a script: pipelines defined in every way, each run by workers in other processes.

Arguments: a folder to write modules to, and the address of a Connect server. Prints one JSON object: engine → way →
what the workers answered.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.batch.work import Engine, Item
from tidemill.engines import engine_for
from tidemill.errors import InvalidInput

FOLDER = Path(sys.argv[1])
CELL = "def function(text):\n    return helper(text)\ndef helper(text):\n    return text[::-1]\n"
SUFFIX = "!"  # a global that functions of this script use


def shout(text: str) -> str:
    return text.upper() + SUFFIX


@dataclass(frozen=True)
class Calls:
    """Two tasks call the function; the range joins their results and adds its own process."""

    function: Callable[[str], Any]
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    scatter_tasks: int = 2
    ranges: int = 2
    levels: int = 1

    def scatter(self, task: int) -> Iterator[Item]:
        yield Item(0, str(self.function(f"tide{task}")).encode())

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        texts = sorted(item.decode() for item in items)
        if range_index == 0:
            yield Item(0, json.dumps({"texts": texts, "process": os.getpid()}).encode())


def answer(engine: Engine, work: Calls) -> Any:
    (receipt,) = engine.execute(work)
    found = json.loads(receipt)
    assert found["process"] != os.getpid(), "a worker is another process"
    return found["texts"]


def script(engine: Engine) -> Any:
    return answer(engine, Calls(shout))


def closure(engine: Engine) -> Any:
    mark = "?"
    return answer(engine, Calls(lambda text: text + mark))


def notebook(engine: Engine) -> Any:
    """Run cells in the namespace of `__main__`. A function that is defined again replaces the earlier one."""
    answers = []
    for version in (1, 2):
        cell = f"def cell_function(text):\n    return f'{{text}} v{version}'\n"
        exec(compile(cell, f"<cell {version}>", "exec"), sys.modules["__main__"].__dict__)  # noqa: S102 - as a notebook does
        answers.append(answer(engine, Calls(sys.modules["__main__"].cell_function)))
    return answers


def namespaces(engine: Engine) -> Any:
    """Run a function whose globals are not those of a module, as in some notebooks, with and without `__name__`."""
    answers = []
    for namespace in ({"__name__": "no_such_module"}, {}):
        exec(CELL, namespace)  # noqa: S102 - as a notebook does
        answers.append(answer(engine, Calls(namespace["function"])))
    return answers


def path_loaded(engine: Engine) -> Any:
    """A pipeline file loaded from its path, as the command line does; it imports a file beside it."""
    (FOLDER / "beside.py").write_text("def title(text):\n    return text.title()\n")
    file = FOLDER / "my-pipeline.py"
    file.write_text(
        "import beside\nfrom dataclasses import dataclass\n\n@dataclass\nclass Found:\n    text: str\n\n"
        "def function(text):\n    return Found(beside.title(text)).text\n"
    )
    sys.path.insert(0, str(FOLDER))
    module = loaded("tidemill_loaded_pipeline", file)
    return answer(engine, Calls(module.function, modules=(module.__name__,), paths=(str(FOLDER),)))


def missing(engine: Engine) -> Any:
    """A module that only this process has and that is not shipped: one error names it."""
    file = FOLDER / "missing.py"
    file.write_text("def function(text):\n    return text\n")
    try:
        answer(engine, Calls(loaded("only_the_driver_has_it", file).function))
    except InvalidInput as error:
        return [error.first_line, error.hint]
    raise AssertionError("a module that workers lack was not missed")


def unfit_archive(engine: Engine) -> Any:
    """An archive of `tidemill pack` for another architecture, as workers find it when Spark has unpacked it."""
    folder = FOLDER / "tidemill-env"
    folder.mkdir(exist_ok=True)
    manifest = folder / "tidemill-pack.json"
    manifest.write_text(json.dumps({"python": "3.11", "machine": "linux-aarch65", "packages": {}, "modules": []}))
    try:
        answer(engine, Calls(str.upper, paths=(str(folder),)))
    except InvalidInput as error:
        return [str(error), error.hint]
    finally:
        manifest.unlink()  # the folder stays on the path of the worker
    raise AssertionError("the archive was not read")


def loaded(name: str, file: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    engines = {"spark": engine_for(None, "spark", "auto", {"spark.master": "local[2]"})}
    session = None
    if len(sys.argv) > 2:
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(sys.argv[2]).getOrCreate()
        engines["connect"] = engine_for(session)
    ways = (script, closure, notebook, namespaces, path_loaded, missing, unfit_archive)
    print(json.dumps({name: {way.__name__: way(engine) for way in ways} for name, engine in engines.items()}))
    if session is not None:
        session.stop()


if __name__ == "__main__":
    main()
