"""A short form of `make chaos`: real processes, killed and stopped, on a folder and on S3 behind a bad network.

On MinIO it takes a binary, which `TIDEMILL_MINIO` names.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import chaos
from tests.servers import minio
from tests.servers.minio import MinioServer
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import S3Proxy

pytestmark = pytest.mark.slow("interrupt a run at every step")

SEED = int(os.environ.get("TIDEMILL_SEED", "0")) or random.SystemRandom().randrange(10**9)
SECONDS = float(os.environ.get("CHAOS_SECONDS", "3"))


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server) as running:
        yield running


def test_a_folder_survives_processes_that_are_killed_and_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = chaos.play(chaos.folder_place(tmp_path / "chaos"), SEED, SECONDS)
    with capsys.disabled():
        print(f"\nseed {SEED}: {dict(sorted(said.items()))}")


def test_s3_survives_killed_processes_and_a_bad_network(
    tmp_path: Path, s3_server: S3Server, proxy: S3Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    said = chaos.play(chaos.s3_place(tmp_path / "chaos", s3_server, proxy), SEED, SECONDS)
    with capsys.disabled():
        print(f"\nseed {SEED}: {dict(sorted(said.items()))}")


@pytest.mark.servers("use an S3 server")
@pytest.mark.skipif(
    not os.environ.get(minio.BINARY), reason=f"{minio.BINARY} does not name a MinIO binary; build one: {minio.BUILD}"
)
def test_minio_survives_killed_processes_and_a_bad_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MinioServer() as server, S3Proxy(server) as proxy:
        said = chaos.play(chaos.s3_place(tmp_path / "chaos", server, proxy), SEED, SECONDS)
    with capsys.disabled():
        print(f"\nseed {SEED}: {dict(sorted(said.items()))}")


def test_the_checker_finds_a_row_that_is_published_twice(tmp_path: Path) -> None:
    place = chaos.folder_place(tmp_path / "chaos")
    chaos.play(place, SEED, 0)
    copy = place.folder / "copy"
    file = next((copy / "sinks/by-n").glob("*.json"))
    file.with_name(f"again-{file.name}").write_text(file.read_text())
    with pytest.raises(AssertionError, match="sink by-n"):
        chaos.chaos_checker.check(copy)
