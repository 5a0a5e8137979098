"""Fixtures that all tests share: the S3 server, started once a session when first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.s3 import S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3 server on 127.0.0.1; it fails, and does not skip, where it is not installed."""
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_root(s3_server: S3Server) -> str:
    """A URI on the server below which there was nothing; `s3_server.new_root()` makes more of them."""
    return s3_server.new_root()
