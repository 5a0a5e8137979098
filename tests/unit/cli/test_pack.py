"""`tidemill pack`: what is in the archive, that it works when it is unpacked elsewhere, and what is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tidemill.cli.main import main
from tidemill.engines import pack as packing
from tidemill.errors import Exit

USES = (
    "import sys, json, tidemill as tm, tidemill._native, pyarrow.parquet, duckdb, boto3, prices; "
    "print(json.dumps([tm.__version__, tm.__file__, prices.__file__, 'pyspark' in sys.modules]))"
)

SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.3 and older cannot be asked to."""


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the package `prices`, which only this process can import."""
    (tmp_path / "mine/prices").mkdir(parents=True)
    (tmp_path / "mine/prices/__init__.py").write_text("from .table import PRICE\n")
    (tmp_path / "mine/prices/table.py").write_text("PRICE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    return tmp_path


def packed(target: Path, *options: str, capfd: pytest.CaptureFixture[str]) -> dict:
    assert main(["pack", "--json", "-o", str(target), *options]) == Exit.DONE
    return json.loads(capfd.readouterr().out)


@pytest.mark.servers("build wheels and environments")
def test_the_archive_works_anywhere_without_anything_installed(ours: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = ours / "env.tar.gz"
    said = packed(target, "--module", "prices", capfd=capfd)
    assert {"tidemill", "pyarrow", "duckdb", "boto3", "botocore", "click", "rich"} <= said["packages"].keys()
    assert not {"pyspark", "apache-airflow", "pytest"} & said["packages"].keys()
    assert said["settings"] == {
        "spark.archives": f"{target}#tidemill-env", "spark.executorEnv.PYTHONPATH": "tidemill-env"
    }  # fmt: skip
    with tarfile.open(target) as archive:
        names = archive.getnames()
        assert not [name for name in names if name.startswith(("/", "..")) or "__pycache__" in name]
        assert len(names) == said["files"] and "prices/table.py" in names
        manifest = json.load(archive.extractfile(packing.MANIFEST))
        archive.extractall(ours / "else", **SAFELY)
    assert manifest["packages"] == said["packages"] and manifest["modules"] == ["prices"]
    assert manifest["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    env = {"PYTHONPATH": str(ours / "else"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-S", "-c", USES], env=env, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    version, package, module, has_spark = json.loads(done.stdout)
    assert version == said["packages"]["tidemill"]
    assert package.startswith(str(ours / "else")) and module.startswith(str(ours / "else"))
    assert not has_spark


@pytest.mark.servers("build wheels and environments")
def test_the_same_installation_gives_the_same_bytes(
    ours: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_closure", lambda names: {})
    digests = set()
    for name in ("one.tar.gz", "two.tar.gz"):
        packed(ours / name, "--module", "prices", capfd=capfd)
        digests.add(hashlib.sha256((ours / name).read_bytes()).hexdigest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--with", "no-such-package"], "pack: the package `no-such-package` is not installed in "),
        (["--module", "no_such_module"], "pack: there is no module `no_such_module`"),
        (["--module", "no.such.module"], "pack: cannot find the module `no.such.module`"),
    ],
)
def test_what_is_not_there_is_named_and_nothing_is_written(
    ours: Path, options: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", "-o", str(ours / "env.tar.gz"), *options]) == Exit.FAILED
    error = capfd.readouterr().err
    assert (said in error and "hint: " in error) or "cannot find" in error
    assert [path.name for path in ours.iterdir()] == ["mine"]


def test_a_place_that_cannot_be_written_is_an_error(
    ours: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_closure", lambda names: {})
    assert main(["pack", "-o", str(ours / "no/env.tar.gz")]) == Exit.FAILED
    assert "env.tar.gz`: No such file or directory" in capfd.readouterr().err


def test_an_editable_package_is_refused() -> None:
    class Editable:
        version = "1"

        def read_text(self, name: str) -> str:
            return json.dumps({"url": "file:///srv/mine", "dir_info": {"editable": True}})

    with pytest.raises(packing.InvalidInput, match="`mine` is installed from a folder"):
        packing._files_of(Editable(), "mine")  # type: ignore[arg-type]
