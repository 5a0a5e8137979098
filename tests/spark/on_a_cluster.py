"""Run by test_cluster.py as a script: one driver of a cluster, with pipelines that reach the workers in every way.

Arguments: a folder that driver and workers share, JSON of settings, a root on S3, and JSON of its endpoint. The keys of
S3 are in this process's environment. Prints one JSON object: name → result. Of a run that must succeed the result is
the state on Spark and on the local engine. Of a command line that must fail it is the exit status, what was said, and
whether there is a plan.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import tidemill as tm
from tidemill.cli.main import main as command_line
from tidemill.store import folder_store

FOLDER = Path(sys.argv[1])
CONF: dict[str, str] = json.loads(sys.argv[2])
ROOT = sys.argv[3]
ENDPOINT: dict[str, str] = json.loads(sys.argv[4])
SHARED = {"tidemill.shared_folders": str(FOLDER)}
FACTOR = 0.1  # a global that functions of this script use
FILE = """
import beside
import tidemill as tm

def total(batch_time, user, row, state):
    state.update((state.getOption or 0.0) + beside.scaled(row.value))
    return (user, state.get)

p = tm.Pipeline("{name}")
p.batch_time(lambda plan: 1000)
rows = p.read(tm.Files("{folder}/in", format="csv", header=True, schema="user string, value double"))
rows.groupBy("user").mapWithState(
    tm.StateSpec.function(total), stateSchema="double", outputSchema="user string, total double", name="totals"
)
"""
CELL = FILE.replace("import beside\n", "").replace("beside.scaled(row.value)", "row.value / 3")
IMPORTS_LATE = CELL.replace("    state.", "    import a_package\n    state.")


def scaled(value: float) -> float:
    return value * FACTOR


def total(batch_time: Any, user: Any, row: Any, state: Any) -> Any:
    state.update((state.getOption or 0.0) + scaled(row.value))
    return (user, state.get)


def script() -> dict[str, Any]:
    p = tm.Pipeline("script")
    p.batch_time(lambda plan: 1000)
    rows = p.read(tm.Files(f"{FOLDER}/in", format="csv", header=True, schema="user string, value double"))
    rows.groupBy("user").mapWithState(
        tm.StateSpec.function(total), stateSchema="double", outputSchema="user string, total double", name="totals"
    )
    return on_both(p)


def cell() -> dict[str, Any]:
    """Run a cell in the namespace of `__main__`, as a notebook does."""
    cells = sys.modules["__main__"].__dict__
    exec(compile(CELL.format(name="cell", folder=FOLDER), "<cell 1>", "exec"), cells)  # noqa: S102 - as a notebook does
    return on_both(cells["p"])


def on_both(p: tm.Pipeline) -> dict[str, Any]:
    found = {}
    for engine in ("spark", "local"):
        repository = tm.open(p, root=f"{FOLDER}/{engine}", conf={**CONF, **SHARED})
        repository.init()
        repository.run(engine=engine)
        found[engine] = repository.state("totals").to_pylist()
    return found


def file() -> dict[str, Any]:
    """Run a pipeline file that imports the file beside it. Neither can be imported by its name elsewhere."""
    reference = f"{FOLDER / 'file.py'}:p"
    found = {}
    for engine in ("spark", "local"):
        root = f"{FOLDER}/{engine}"
        ran = [called("init", reference, "--root", root), called("run", reference, "--root", root, engine=engine)]
        assert [status for status, _ in ran] == [0, 0], ran
        found[engine] = tm.read(root, "file").state("totals").to_pylist()
    return found


def refused(reference: str, root: str, *options: str, conf: dict[str, str] = SHARED) -> list[Any]:
    status, said = called("init", reference, "--root", root, *options)
    assert status == 0, said
    status, said = called("run", reference, "--root", root, *options, engine="spark", conf=conf)
    return [status, said, has_plan(root)]


def called(verb: str, *arguments: str, engine: str = "", conf: dict[str, str] = SHARED) -> tuple[int, str]:
    """Call the command line in this process, which has one Spark context for all calls."""
    settings = [part for key, value in {**CONF, **conf}.items() for part in ("--conf", f"{key}={value}")]
    words = [verb, *arguments, *(["--engine", engine, *settings] if engine else [])]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        status = command_line(words)
    return int(status), said.getvalue()


def has_plan(root: str) -> bool:
    store = folder_store(root, ENDPOINT if root == ROOT else None)
    return any("/plans/" in one.name for one in store.list(""))


def lacks() -> dict[str, Any]:
    """Return what is refused. The folder `only-here` is on the path of this process alone.

    A run of `a_module:p` ships the path of this process, which workers on this machine then have. So it comes last.
    """
    only_here = FOLDER / "only-here"
    only_here.mkdir()
    sys.path.insert(0, str(only_here))
    (only_here / "a_package.py").write_text("")
    (FOLDER / "a_module.py").write_text(CELL.format(name="module", folder=FOLDER))
    importlib.import_module("a_module")
    (FOLDER / "a_module.py").unlink()  # this process has it, and workers do not
    (FOLDER / "late.py").write_text(IMPORTS_LATE.format(name="late", folder=FOLDER))
    (FOLDER / "keys.py").write_text(CELL.format(name="keys", folder=FOLDER))
    late, endpoint = f"{FOLDER / 'late.py'}:p", [f"root.{name}={value}" for name, value in ENDPOINT.items()]
    return {
        "root": refused(late, f"{FOLDER}/here", conf={"tidemill.shared_folders": f"{FOLDER}/in"}),
        "source": refused(late, f"{FOLDER}/there", conf={"tidemill.shared_folders": f"{FOLDER}/there"}),
        "package": refused(late, f"{FOLDER}/package"),
        "warm a package": [*called("warm", late, "--root", f"{FOLDER}/package", engine="spark"), False],
        "module": refused("a_module:p", f"{FOLDER}/module"),
        "keys": refused(f"{FOLDER / 'keys.py'}:p", ROOT, *(f"--storage-option={one}" for one in endpoint)),
    }


def main() -> None:
    (FOLDER / "beside.py").write_text("def scaled(value):\n    return value * 0.7\n")
    (FOLDER / "file.py").write_text(FILE.format(name="file", folder=FOLDER))
    found = {"script": script(), "cell": cell(), "file": file(), "warm": called("warm", engine="spark"), **lacks()}
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main()
