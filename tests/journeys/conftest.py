"""What tests of several files start from: a file that waits, and a pipeline with three versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys import shop
from tests.journeys.bad_input import counting
from tests.journeys.place import Place, placed
from tests.world import World, run
from tidemill.cli.main import main

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A file with two rows waits, and the code counts them."""
    made = World(tmp_path, counting("n"), name="bad", format="json", maxFilesPerTrigger=None)
    made.put("a", [{"k": "x", "v": 1}, {"k": "y", "v": 2}])
    return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return placed(tmp_path)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line; gives exit status, stdout and stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        return main([str(one) for one in arguments]), *capfd.readouterr()

    return run


@pytest.fixture
def agreed_shop(tmp_path: Path) -> tm.Repository:
    """Two versions, and an open plan that cannot run."""
    r = shop.opened(tmp_path)
    shop.arrive(tmp_path, "a", "b")
    run(r)
    shop.world(tmp_path).put("bad", "a,much\n")
    with pytest.raises(tm.InvalidInput):
        run(r)
    return r


@pytest.fixture
def agreed_code(agreed_shop: tm.Repository, tmp_path: Path) -> list[str]:
    """The pipeline of the shop as a file, and its root."""
    (tmp_path / "code.py").write_text(
        f"from pathlib import Path\nfrom tests.journeys.shop import opened\n"
        f"p = opened(Path({str(tmp_path)!r})).opened.pipeline\n"
    )
    return [f"{tmp_path}/code.py:p", f"--root={tmp_path}/root", "--json"]


@pytest.fixture
def later_try(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """This process is a task of Airflow in its first try. Returns what makes it the second one."""
    task = {"DAG_ID": "d", "TASK_ID": "t", "DAG_RUN_ID": "r", "TRY_NUMBER": "1"}
    for name, value in task.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
    return lambda: monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")
