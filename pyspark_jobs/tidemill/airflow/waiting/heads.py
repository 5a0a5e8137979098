"""Heads of branches, files that wait and results of jobs, read without the pipeline's code.

INVARIANT: this is the only module of the package that imports the reading half of Tidemill. It does so when it reads,
never when a DAG file is parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ...values import dataclass
from ..calls.checks import check_root_argument, check_storage_options, is_absent
from ..calls.command import Event

if TYPE_CHECKING:
    from ...protocol.records import Commit
    from ...reader import Reader
    from ...reading.arrivals import Watched
    from ...sources.contract import SourceFile
    from ...store import ListedObject

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
        return self._open().head

    def folders(self) -> list[Watched]:
        """Return the folders of the sources, by the newest commit, or before the first batch by `init`."""
        from ...reading.arrivals import watched

        repo = self._open().opened
        return watched(repo, repo.head())

    def waiting(self, entries: Mapping[str, Sequence[ListedObject]]) -> list[SourceFile]:
        """Return the files that no commit has read, of the listed `entries` by folder."""
        from ...reading.arrivals import waiting_in_folders, watched

        repo = self._open().opened
        head = repo.head()
        return waiting_in_folders(repo, head, watched(repo, head), entries)

    def committed_by(self, task: Mapping[str, str]) -> list[int]:
        """Return the versions that an Airflow task committed, by `dag_id`, `task_id` and `dag_run_id`, ascending."""
        from ...reading.tries import committed_by

        return committed_by(self._open().opened, task)

    def _open(self) -> Reader:
        if self._reader is None:
            from ...reader import read

            # Variables of AWS may be there for the sources alone, and a local root takes no options.
            has_options = self.options and self.root.startswith(("s3://", "s3a://"))
            storage_options = {"root": dict(self.options)} if has_options else None
            self._reader = read(
                check_root_argument(self.root), self.pipeline, self.branch, storage_options=storage_options
            )
        return self._reader

    async def read_aside(self) -> Commit | None:
        """Do what `read` does, in a thread, so that the event loop of the triggerer goes on."""
        return await asyncio.to_thread(self.read)

    def as_arguments(self) -> dict[str, Any]:
        """Return the arguments that make an equal object, as plain JSON."""
        return {"root": self.root, "pipeline": self.pipeline, "branch": self.branch, "options": dict(self.options)}


def list_folder(
    uri: str, options: Mapping[str, Any] | None = None, start_after: str | None = None
) -> list[ListedObject]:
    """Return the objects below a folder, or none if it does not exist. `options` are for S3.

    `start_after`: only those with names after this one.
    """
    from ...reading.arrivals import objects_below

    return objects_below(uri, options, start_after)


def event_of_result(uri: str, options: Mapping[str, Any] | None = None) -> Event | None:
    """Return the object in the result file of a run, or None if there is no such file. `options` are for S3."""
    from ...reading.results import read_result as read

    return read(uri, options)


def tries_in(folder: str, options: Mapping[str, Any] | None = None) -> list[int]:
    """Return the tries that have left a result file `NUMBER.json` in a folder, ascending."""
    from ...reading.results import results_in as found

    return found(folder, options)


def root_options(
    storage_options: Mapping[str, Mapping[str, Any]] | None, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the storage options of the root, as `section_options` does."""
    return section_options("root", storage_options, env)


def section_options(
    section: str, storage_options: Mapping[str, Mapping[str, Any]] | None, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the storage options of a section. Variables of AWS in `env` count where the options lack a key.

    A triggerer serves many pipelines, so it must not set variables for one of them.
    """
    check_storage_options(storage_options)
    given = dict((storage_options or {}).get(section) or {})
    from_env = {_ENVIRONMENT[name]: value for name, value in sorted((env or {}).items()) if name in _ENVIRONMENT}
    return {name: value for name, value in {**from_env, **given}.items() if not is_absent(value)}
