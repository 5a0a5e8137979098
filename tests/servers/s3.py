"""A real S3 server for tests: ministack, in its own virtual environment, on 127.0.0.1.

`make setup` makes the environment by `python -m tests.servers.s3 setup`. `S3Server` starts and stops the server.
INVARIANT: the server dies with the process that started it, and is stopped by its own pid.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from functools import partial
from pathlib import Path
from types import TracebackType

from tests.servers.children import answers, die_with_parent, end, free_port, is_ready

HERE = Path(__file__).resolve()
ENVIRONMENT = HERE.parents[2] / ".venv-s3"
REQUIREMENTS = HERE.with_name("requirements-s3.txt")
PYTHON = ENVIRONMENT / "bin" / "python"
_STAMP = ENVIRONMENT / "requirements-s3.txt"
READY_S = 60


class S3Server:
    """A running server: `endpoint_url`, `options` for `open_store`, `environment` for a child process."""

    def __init__(self) -> None:
        self._check_environment()
        self._folder = Path(tempfile.mkdtemp(prefix="tidemill-s3-"))
        self._process, self.port = self._start()
        self._bucket = f"tidemill-{uuid.uuid4().hex[:12]}"
        self._request("PUT", f"/{self._bucket}")

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bucket(self) -> str:
        """The name of an existing bucket."""
        return self._bucket

    @property
    def options(self) -> dict[str, str]:
        """Storage options for the server."""
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same options as environment variables of AWS."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    @property
    def pid(self) -> int:
        return self._process.pid

    def new_root(self) -> str:
        """Return a new URI with nothing below it."""
        return f"s3://{self._bucket}/{uuid.uuid4().hex[:12]}"

    def stop(self) -> None:
        end(self._process, 5)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @staticmethod
    def _check_environment() -> None:
        if not PYTHON.exists() or not _STAMP.exists() or _STAMP.read_bytes() != REQUIREMENTS.read_bytes():
            raise RuntimeError(
                "the S3 server for tests is not installed: run `make setup` (or `python -m tests.servers.s3 setup`)"
            )

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        """Start on a free port. If another process binds it first, try another port."""
        for _ in range(5):
            port = free_port()
            process = subprocess.Popen(
                [PYTHON, "-m", "tests.servers.s3", "serve", str(os.getpid())],
                env=_server_environment(port, self._folder),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=self._log.open("wb"),
                stderr=subprocess.STDOUT,
            )
            if is_ready(process, partial(answers, port), READY_S):
                return process, port
        raise RuntimeError(f"the S3 server for tests did not start: {self._log.read_text(errors='replace')[-2000:]}")

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _request(self, method: str, path: str) -> None:
        request = urllib.request.Request(self.endpoint_url + path, method=method)
        request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request")
        with urllib.request.urlopen(request, timeout=10):
            pass


def _server_environment(port: int, folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(HERE.parents[2]),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "LOG_LEVEL": "WARNING",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "DOCKER_HOST": f"unix://{folder}/none",  # or the server would look for its containers
    }


def serve(parent: int) -> None:
    """Become the server, in its own environment. The kernel kills it when `parent` dies."""
    die_with_parent()
    if os.getppid() != parent:
        raise SystemExit("the process that started the server has ended")
    from ministack.app import main  # type: ignore[import-not-found]

    sys.argv = ["ministack"]
    main()


def setup() -> None:
    """Make or update the environment from the pinned requirements."""
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is missing: the S3 server for tests is installed with it")
    if _STAMP.exists() and PYTHON.exists() and _STAMP.read_bytes() == REQUIREMENTS.read_bytes():
        return
    if not PYTHON.exists():
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, ENVIRONMENT], check=True)
    subprocess.run([uv, "pip", "sync", "--quiet", "--python", PYTHON, REQUIREMENTS], check=True)
    shutil.copyfile(REQUIREMENTS, _STAMP)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["serve", pid]:
            serve(int(pid))
        case _:
            raise SystemExit("usage: python -m tests.servers.s3 setup")
