"""Settings: where their values come from, and errors for unknown keys and invalid values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import InvalidInput
from tidemill.settings import Settings, resolve_settings


def test_settings_have_defaults(tmp_path: Path) -> None:
    assert resolve_settings(None, {}, tmp_path) == (Settings(), {})
    assert Settings().block_rows == 131_072


def test_arguments_precede_environment_file_and_defaults(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(
        "tidemill.block_rows = 1\n[tidemill]\n".replace("[tidemill]\n", "")
        + 'tidemill.split_bytes = "2 MiB"\ntidemill.task_bytes = 3\n'
        + '[spark]\nexecutor.memory = "1g"\n"speculation" = true\n'
    )
    environment = {"TIDEMILL_SPLIT_BYTES": "4 MiB", "TIDEMILL_TASK_BYTES": "5", "TIDEMILL_ROOT": "x", "HOME": "y"}
    settings, spark = resolve_settings({"tidemill.task_bytes": 6, "spark.executor.memory": "2g"}, environment, tmp_path)
    assert settings == Settings(block_rows=1, split_bytes=4 * 1024**2, task_bytes=6)
    assert spark == {"spark.executor.memory": "2g", "spark.speculation": "true"}


def test_file_and_environment_default_to_those_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidemill.toml").write_text("[tidemill]\nblock_rows = 10\n")
    monkeypatch.setenv("TIDEMILL_CACHE_BYTES", "0")
    assert resolve_settings()[0] == Settings(block_rows=10, cache_bytes=0)


@pytest.mark.parametrize(
    ("conf", "environment", "message"),
    [
        ({"tidemill.block_row": 5}, {}, "unknown setting `tidemill.block_row`; did you mean `tidemill.block_rows`?"),
        ({"block_rows": 5}, {}, "unknown setting `block_rows`; did you mean `tidemill.block_rows`?"),
        ({"nonsense": 5}, {}, "known: spark.…, tidemill.batch_time_tolerance, tidemill.block_rows, "),
        ({"tidemill.block_rows": 0}, {}, "setting `tidemill.block_rows` is 0, expected at least 1"),
        ({"tidemill.block_rows": "many"}, {}, "setting `tidemill.block_rows` is 'many': expected a number of rows"),
        ({"tidemill.split_bytes": None}, {}, "expected a size such as `64 MiB`"),
        ({}, {"TIDEMILL_BLOCK_ROW": "5"}, "did you mean `TIDEMILL_BLOCK_ROWS`?"),
    ],
)
def test_an_unknown_or_invalid_setting_is_an_error(
    tmp_path: Path, conf: dict[str, Any], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve_settings(conf, environment, tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("task_byte = 1", "unknown setting `tidemill.task_byte` in `{}`; did you mean `tidemill.task_bytes`?"),
        ('task_bytes = "lots"', "setting `tidemill.task_bytes` in `{}` is 'lots': expected a size"),
        ("block_rows = 0", "setting `tidemill.block_rows` in `{}` is 0, expected at least 1"),
        ("disk_cache_folder = 5", "setting `tidemill.disk_cache_folder` in `{}` is 5: expected a path"),
    ],
)
def test_an_error_for_a_setting_of_the_file_names_the_file(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "tidemill.toml"
    file.write_text(f"[tidemill]\n{line}\n")
    with pytest.raises(InvalidInput) as caught:
        resolve_settings(None, {}, tmp_path)
    assert message.format(file.resolve()) in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "TIDEMILL_CHUNK_BYTES",
            "lots",
            "setting `tidemill.chunk_bytes` in the environment is 'lots': expected a size",
        ),
        (
            "TIDEMILL_BLOCK_ROWS",
            "²",
            "setting `tidemill.block_rows` in the environment is '²': expected a number of rows",
        ),
        (
            "TIDEMILL_BLOCK_ROWS",
            "9" * 5000,
            "setting `tidemill.block_rows` in the environment is '9999",
        ),
        ("TIDEMILL_BLOCK_ROWS", "0", "setting `tidemill.block_rows` in the environment is 0, expected at least 1"),
        ("TIDEMILL_BLOK_ROWS", "5", "unknown setting `TIDEMILL_BLOK_ROWS` in the environment; did you mean"),
    ],
)
def test_an_error_for_a_setting_of_the_environment_says_so(
    tmp_path: Path, variable: str, value: str, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve_settings(None, {variable: value}, tmp_path)
    assert str(caught.value).startswith(message)


def test_settings_are_checked_when_constructed_directly() -> None:
    with pytest.raises(InvalidInput, match="setting `tidemill.split_bytes` is 0, expected at least 1"):
        Settings(split_bytes=0)


def test_a_file_that_is_not_toml_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text("block_rows: 5\n")
    with pytest.raises(InvalidInput, match=r"read settings from `.*tidemill\.toml`"):
        resolve_settings(None, {}, tmp_path)
