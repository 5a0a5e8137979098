"""An archive of `tidemill pack` for another Python or architecture is named before anything of it is imported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.engines import worker
from tidemill.engines.failure import failed

OURS = worker.built_for()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an unpacked archive, first on the path of this process."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(worker, "_freeze_imports", lambda: None)  # this process is no worker
    return tmp_path


def opened(folder: Path, manifest: Any) -> str:
    """Return the error of a worker that has an archive with this manifest, as the driver shows it."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    (folder / worker.MANIFEST).write_text(text)
    with pytest.raises(RuntimeError) as caught:
        worker.open_work(b"never opened", ())
    found = failed(RuntimeError(f"Job aborted: {caught.value}\n\tat org.apache.spark"), "spark")
    assert type(found) is tm.InvalidInput
    assert str(found.hint).startswith("run `tidemill pack` on a machine with the Python and the architecture of the")
    return found.message


@pytest.mark.parametrize("theirs", [{"machine": "linux-aarch65"}, {"python": "3.9"}])
def test_another_architecture_or_python_is_named(folder: Path, theirs: dict[str, str]) -> None:
    text = opened(folder, {"packages": {}, "modules": [], **OURS, **theirs})
    said = [f"Python {one['python']} on {one['machine']}" for one in (OURS | theirs, OURS)]
    assert text.endswith(f" was given an archive of `tidemill pack` for {said[0]}, and is {said[1]}")


@pytest.mark.parametrize("text", [json.dumps(OURS), "{}", "[1]", "not JSON", '{"python": 3}'])
def test_an_archive_that_fits_and_a_manifest_that_says_nothing_are_accepted(folder: Path, text: str) -> None:
    from pyspark import cloudpickle

    (folder / worker.MANIFEST).write_text(text)
    assert worker.open_work(cloudpickle.dumps({"a": "work"}), ()) == {"a": "work"}
