"""Results of runs on other machines, in a folder and on S3."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill as tm
from tests.servers.s3 import S3Server
from tidemill.cli import result_file
from tidemill.reading.results import read_result, results_in

DONE = b'{"event":"result","status":"done"}\n'


@pytest.mark.parametrize("kind", ["path", "uri", pytest.param("s3", marks=pytest.mark.servers("use an S3 server"))])
def test_results_are_listed_by_try_and_read(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run = "manual__2026-01-05T10:00:00+00:00 100%"
    options = None
    folder = f"{tmp_path}/_results/{run}" if kind == "path" else f"{(tmp_path / '_results' / run).as_uri()}"
    if kind == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        folder, options = f"{server.new_root()}/_results/{run}", server.options
    assert results_in(folder, options) == []
    assert read_result(f"{folder}/1.json", options) is None
    (tmp_path / "_results" / run).mkdir(parents=True)
    for name in ("2.json", "10.json", "x.json"):
        result_file.write_result_file(f"{folder}/{name}", DONE, {} if options is None else {"root": options})
    assert results_in(folder, options) == [2, 10]
    assert read_result(f"{folder}/10.json", options) == {"event": "result", "status": "done"}


def test_anything_else_is_no_result(tmp_path: Path) -> None:
    place = tmp_path / "1.json"
    for text in ("", "[]", '{"event": "progress"}', "{"):
        place.write_text(text)
        with pytest.raises(tm.InvalidInput, match="is no result of a run"):
            read_result(str(place))
