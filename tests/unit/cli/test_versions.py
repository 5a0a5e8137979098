"""`tidemill --version`, alone and with `--verbose`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.cli import versions
from tidemill.cli.main import main


def test_the_version_is_one_line_and_that_of_the_wheel(capsys: pytest.CaptureFixture[str]) -> None:
    assert tm.__version__ == version("tidemill")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tidemill {version('tidemill')}\n"


@pytest.mark.parametrize("arguments", [["--version", "--verbose"], ["--verbose", "--version"]])
def test_verbose_also_says_what_it_runs_on(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"tidemill {version('tidemill')}"
    assert f"pyarrow {version('pyarrow')}" in lines
    assert [line.split()[0] for line in lines[3:]] == ["Java", *versions.PACKAGES]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'openjdk version \"17.0.2\" 2022-01-18' >&2", "Java 17.0.2"),
        ("echo nothing", "Java does not say its version"),
        (None, "Java was not found"),
    ],
)
def test_java_is_that_of_java_home(
    script: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    if script is not None:
        (tmp_path / "bin/java").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin/java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["--version", "--verbose"]) == 0
    assert said in capsys.readouterr().out.splitlines()


def test_packages_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "PACKAGES", ("no-such-package",))
    assert main(["--version", "--verbose"]) == 0
    assert "no-such-package is not installed" in capsys.readouterr().out.splitlines()
