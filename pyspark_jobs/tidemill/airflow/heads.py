"""Heads of branches, read without the pipeline's code, for triggers and sensors.

INVARIANT: this is the only module of the package that imports the reading half of Tidemill. It does so when it reads,
never when a DAG file is parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .checks import check_root, check_storage_options, is_absent

if TYPE_CHECKING:
    from ..protocol.records import Commit
    from ..reader import Reader

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
    "AWS_PROFILE": "profile_name",
    "AWS_DEFAULT_REGION": "region_name",
    "AWS_REGION": "region_name",
    "AWS_ENDPOINT_URL": "endpoint_url",
    "AWS_ENDPOINT_URL_S3": "endpoint_url",
}


@dataclass
class Heads:
    """The head of one branch, to be read again and again. The first read costs a few requests, later ones three.

    - `root`: a URI or an absolute path.
    - `pipeline`: the name of the pipeline in its code, `tm.Pipeline(NAME)`.
    - `options`: storage options of the root.
    """

    root: str
    pipeline: str
    branch: str = "main"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    _reader: Reader | None = field(default=None, repr=False, compare=False)

    def read(self) -> Commit | None:
        """Return the newest commit, or None before the first batch. Raises the kinds of `TidemillError`."""
        if self._reader is None:
            from ..reader import read

            storage_options = {"root": dict(self.options)} if self.options else None
            self._reader = read(check_root(self.root), self.pipeline, self.branch, storage_options=storage_options)
        return self._reader.head

    async def read_aside(self) -> Commit | None:
        """Do what `read` does, in a thread, so that the event loop of the triggerer goes on."""
        return await asyncio.to_thread(self.read)

    def as_arguments(self) -> dict[str, Any]:
        """Return the arguments that make an equal object, as plain JSON."""
        return {"root": self.root, "pipeline": self.pipeline, "branch": self.branch, "options": dict(self.options)}


def root_options(
    storage_options: Mapping[str, Mapping[str, Any]] | None, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the storage options of the root. Variables of AWS in `env` count where the options lack a key.

    A triggerer serves many pipelines, so it must not set variables for one of them.
    """
    check_storage_options(storage_options)
    given = dict((storage_options or {}).get("root") or {})
    from_env = {_ENVIRONMENT[name]: value for name, value in sorted((env or {}).items()) if name in _ENVIRONMENT}
    return {name: value for name, value in {**from_env, **given}.items() if not is_absent(value)}
