"""Checks of the sinks before a plan is written: their places belong to us, and their columns stay the same.

INVARIANT: a batch is never committed for a sink that would then refuse to publish it, so a refusal costs nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..counts import count_of, versions_of
from ..errors import InvalidInput
from ..pipeline.job import JobSink
from ..protocol.records import Commit, VersionOf
from ..protocol.retained import is_kept
from ..repo.opened import Opened
from ..schema import difference, to_arrow, to_ddl
from ..sinks.asked import seen, sink_folder
from ..sinks.contract import Seen
from ..store import relative_folder
from ..values import dataclass
from .copied import publish_as_ours
from .publish import published_through
from .taken_over import seen_by_record
from .works import place_of

LOG = logging.getLogger("tidemill")


@dataclass(frozen=True)
class Accepted:
    """The risks that the caller of a run accepts."""

    adopt_sink: bool = False
    replace_sink: bool = False
    output_change: bool = False
    drop: tuple[str, ...] = ()
    """Operators whose state a promotion may end."""

    def __post_init__(self) -> None:
        if self.adopt_sink and self.replace_sink:
            raise InvalidInput("run: found both adopt_sink and replace_sink, expected at most one of them")


@dataclass(frozen=True)
class Shared:
    """The sinks whose places a run looked at, by what it found.

    `ours`: only files of this repository. `adopted` and `replaced`: files of others, by what the caller said of them.
    """

    ours: frozenset[str] = frozenset()
    adopted: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()


NOT_SHARED = Shared()
_REPLACE = (
    "; or, if their rows are not needed any more, delete them once ours are published: run(replace_sink=True) or "
    "--replace-sink"
)


def missing_sinks(repo: Opened, head: Commit | None) -> list[str]:
    """Return the sinks with a missing relative folder and something to publish, now or in the last published version.

    This process may run in another folder than the one before. It logs a warning if the sink has published before.
    """
    if head is None or not repo.publishes:
        return []
    relative = {
        name: output.sink.path
        for name, output in repo.job.outputs.items()
        if output.sink is not None
        and (folder := relative_folder(output.sink.path)) is not None
        and not os.path.exists(folder)
    }
    through = published_through(repo, head) if relative else -1
    last = repo.log.commit(through) if through >= 0 else None
    for name, path in relative.items():
        if last is not None and last.outputs.get(name):
            LOG.warning(
                "sink `%s`: version %d was published in `%s`, but this folder does not exist in %s, the working folder "
                "of this process; new versions are published there. If the path is right, `tidemill publish --from 0` "
                "restores the files; otherwise use an absolute path",
                name, last.version, path, os.getcwd(),
            )  # fmt: skip
    return [name for name in relative if any(commit.outputs.get(name) for commit in (head, last) if commit is not None)]


def check_outputs(repo: Opened, head: Commit | None, accepted: Accepted) -> None:
    """Raise `InvalidInput` if a sink would write other columns, partitions or another format than up to the head."""
    for name, output in repo.job.outputs.items():
        before = None if head is None else head.sinks.get(name)
        if output.sink is None or not output.sink.path or before is None or accepted.output_change:
            continue
        if output.sink.uri == before.get("uri") and (change := _change(before, output)) is not None:
            raise InvalidInput(
                f"sink `{name}` at `{output.sink.path}`: {change}; readers of the sink would find both",
                hint="restore the output, give the sink another path, or accept the change for one run: "
                "run(accept_output_change=True) or --accept-output-change",
            )


def _change(before: Mapping[str, Any], output: JobSink) -> str | None:
    """Return how a sink's output differs from the recorded one, or None."""
    assert output.sink is not None
    now = output.sink.describe()
    schema = to_ddl(output.schema)
    if before["schema"] != schema:
        detail = difference(to_arrow(before["schema"]), output.schema)
        return f"has columns `{before['schema']}`, this code writes `{schema}`" + (f" ({detail})" if detail else "")
    for what in dict.fromkeys(("kind", "partitionBy", *now)):
        if what != "path" and (before.get(what) or []) != (now.get(what) or []):
            word = _WORDS.get(what, f"`{what}`")
            return f"has {word} {_shown(before.get(what))}, this code writes {_shown(now.get(what))}"
    return None


_WORDS = {"kind": "format", "partitionBy": "partition columns"}


def _shown(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else ", ".join(f"`{one}`" for one in value or ()) or "none"


def check_owners(repo: Opened, head: Commit | None, accepted: Accepted) -> Shared:
    """Raise `InvalidInput` if another repository has files in the place of a sink, unless the caller accepts that.

    A place is listed until this repository is seen to have files there alone. So of two repositories that publish there
    for the first time at once, the next batch of each finds the other.
    """
    ours: set[str] = set()
    adopted: set[str] = set()
    replaced: set[str] = set()
    for output in repo.job.outputs.values():
        if output.sink is None or not output.sink.path or _owner(repo, head, output) is not None:
            continue
        found = seen(output.sink, place_of(repo, output.name))
        present = list(seen_by_record(repo, head, output.name, found))
        others = [one.name for one in present if not one.is_ours]
        only = _only_there(repo, present)
        if only and accepted.replace_sink:
            raise InvalidInput(
                f"sink `{output.name}` at `{output.sink.path}`: only the files of the repository of which this is a "
                f"copy have the rows of {versions_of(only)}, which the copy no longer keeps",
                hint="give the sink another path; or keep these files beside ours: run(adopt_sink=True) or "
                "--adopt-sink",
            )
        if others and not (accepted.adopt_sink or accepted.replace_sink):
            raise InvalidInput(
                f"sink `{output.name}` at `{output.sink.path}` has {count_of(len(others), 'file')} that another "
                f"repository of pipeline `{repo.job.pipeline}` published, for example `{others[0]}`; readers of the "
                "sink would find the rows of both",
                hint="give the sink another path; or keep these files beside ours: run(adopt_sink=True) or "
                "--adopt-sink" + ("" if only else _REPLACE),
            )
        if others and accepted.replace_sink and sink_folder(output.sink) is None:
            raise InvalidInput(
                f"sink `{output.name}` at `{output.sink.path}`: what another repository wrote there can be deleted "
                "only from a folder of files",
                hint="give the sink another path; or keep it: run(adopt_sink=True) or --adopt-sink",
            )
        if others:
            (adopted if accepted.adopt_sink else replaced).add(output.name)
        elif present:
            ours.add(output.name)
    return Shared(frozenset(ours), frozenset(adopted), frozenset(replaced))


def _only_there(repo: Opened, present: Sequence[Seen]) -> list[int]:
    """Return the versions that only files of the original of this copy show, because the copy no longer keeps them."""
    newest, refs = repo.log.head(), repo.initialised()
    uuids = {one.version: one.uuid for one in present if not one.is_ours}
    shared = [one for one in sorted(uuids) if newest is not None and one <= newest.version]
    return [
        one
        for one in shared
        if repo.log.commit(one).pipeline_uuid.startswith(uuids[one]) and not is_kept(refs, VersionOf(repo.branch, one))
    ]


def _owner(repo: Opened, head: Commit | None, output: JobSink) -> str | None:
    """Return our uuid if the head records that this repository owns the place of a sink."""
    if head is None or not _is_there(head, output):
        return None
    uuid = repo.initialised().uuid
    return uuid if head.sinks[output.name].get("owner") == uuid else None


def _is_there(head: Commit, output: JobSink) -> bool:
    """Whether the head has this sink at the same place."""
    before = head.sinks.get(output.name)
    return before is not None and output.sink is not None and before.get("uri") == output.sink.uri


def described(repo: Opened, head: Commit | None, output: JobSink, shared: Shared) -> dict[str, Any]:
    """Return the description of a sink for the next commit."""
    what = {"kind": None, "path": None} if output.sink is None else output.sink.describe()
    ours = _owner(repo, head, output)
    if ours is None and output.name in shared.ours | shared.adopted:
        ours = repo.initialised().uuid
    uri = None if output.sink is None else output.sink.uri or None
    return {**what, "uri": uri, "schema": to_ddl(output.schema), "owner": ours}


def delete_files_of_others(repo: Opened, shared: Shared) -> None:
    """Delete the files of other repositories in the places that the caller replaces. Ours are published.

    A copy first publishes the versions that it shares with the original, whose files it deletes.
    """
    for name in sorted(shared.replaced):
        output = repo.job.outputs[name]
        folder, place = sink_folder(output.sink), place_of(repo, name)
        assert folder is not None  # `check_owners` refuses others
        head = repo.log.head()
        others = [one for one in seen_by_record(repo, head, name, folder.seen(place)) if not one.is_ours]
        publish_as_ours(repo, name, others)
        folder.remove(place, [one.name for one in others])
        LOG.info("sink `%s`: deleted %s of other repositories", name, count_of(len(others), "file"))
