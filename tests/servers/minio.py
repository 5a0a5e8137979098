"""MinIO for tests, from a binary that the caller built and `TIDEMILL_MINIO` names.

It listens on a free port of 127.0.0.1, with credentials of its own. INVARIANT: the server dies with the process that
started it, is stopped by its own pid, and stores everything in a folder of its own, which is then deleted.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import uuid
from functools import partial
from pathlib import Path

import boto3

from tests.servers.children import answers, die_with_parent, free_port, is_ready
from tests.servers.s3 import READY_S, S3Server

BINARY = "TIDEMILL_MINIO"
"""The environment variable that names the binary."""
BUILD = "go install github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"


class MinioServer(S3Server):
    """As `S3Server`, with its options and environment."""

    def __init__(self) -> None:
        self._binary = shutil.which(os.environ[BINARY])
        if self._binary is None:
            raise RuntimeError(f"{BINARY}: `{os.environ[BINARY]}` is not a program; build one: {BUILD}")
        self._user, self._secret = secrets.token_hex(8), secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="tidemill-minio-"))
        self._process, self.port = self._start()
        self._bucket = f"tidemill-{uuid.uuid4().hex[:12]}"
        boto3.client("s3", **self.options).create_bucket(Bucket=self._bucket)

    @property
    def options(self) -> dict[str, str]:
        return {**super().options, "aws_access_key_id": self._user, "aws_secret_access_key": self._secret}

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "AWS_ACCESS_KEY_ID": self._user, "AWS_SECRET_ACCESS_KEY": self._secret}

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        for _ in range(5):
            port = free_port()
            process = subprocess.Popen(
                [self._binary, "server", "--quiet", "--address", f"127.0.0.1:{port}", str(self._folder / "data")],
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder),
                     "MINIO_ROOT_USER": self._user, "MINIO_ROOT_PASSWORD": self._secret, "MINIO_UPDATE": "off",
                     "MINIO_BROWSER": "off"},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=self._log.open("wb"),
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )  # fmt: skip
            if is_ready(process, partial(answers, port), READY_S):
                return process, port
        raise RuntimeError(f"MinIO did not start: {self._log.read_text(errors='replace')[-2000:]}")
