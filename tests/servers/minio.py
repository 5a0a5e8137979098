"""MinIO for the chaos test, from a binary that the caller built. It listens on 127.0.0.1 and is stopped by its own pid.

INVARIANT: everything it stores is below the folder that is given, so nothing remains.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import boto3

from tests.servers.s3 import S3Server, _free_port, _is_ready

_USER, _SECRET = "tidemill", "tidemill-tests"


class MinioServer(S3Server):
    """As `S3Server`, with its options and environment."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary, self._folder = binary, folder
        folder.mkdir(parents=True)
        self._process, self.port = self._start()
        self._bucket = f"tidemill-{uuid.uuid4().hex[:12]}"
        boto3.client("s3", **self.options).create_bucket(Bucket=self._bucket)

    @property
    def options(self) -> dict[str, str]:
        return {**super().options, "aws_access_key_id": _USER, "aws_secret_access_key": _SECRET}

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "AWS_ACCESS_KEY_ID": _USER, "AWS_SECRET_ACCESS_KEY": _SECRET}

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        for _ in range(5):
            port = _free_port()
            process = subprocess.Popen(
                [self._binary, "server", "--quiet", "--address", f"127.0.0.1:{port}", str(self._folder / "data")],
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder), "MINIO_ROOT_USER": _USER,
                     "MINIO_ROOT_PASSWORD": _SECRET, "MINIO_UPDATE": "off"},
                cwd=self._folder,
                stdout=self._log.open("wb"),
                stderr=subprocess.STDOUT,
            )  # fmt: skip
            if _is_ready(process, port):
                return process, port
        raise RuntimeError(f"MinIO did not start: {self._log.read_text(errors='replace')[-2000:]}")
