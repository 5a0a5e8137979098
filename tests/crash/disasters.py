"""What happens to a whole repository in `make chaos`: it moves, is copied or restored, or loses what it published.

After each disaster, the commands that its hint names are called, and they must succeed. The network is good meanwhile.
INVARIANT: a copy of an object has the same bytes and another ETag, as one that was made in parts or by `cp`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.store import Store
from tidemill.store.s3 import S3Store

if TYPE_CHECKING:
    from tests.crash.chaos import Storm

LACKS = "does not have"
"""What `adopt` says of a copy if a version was committed at the place before while the copy was made."""
_PUBLISHED = re.compile(r"-(\d{10})-\d{5,}-[0-9a-f]{8}-")
_GO_BACK = re.compile(r"`tidemill rewind --to (\d+)`")
LOCAL = ("--engine", "local", "--tasks", "1")
WHY = ("--reason", "chaos", "--yes")


def moved(storm: Storm) -> None:
    """Move the root while processes stand still. They go on at the place before, where they can commit nothing."""
    for one in storm.running:
        one.signal(signal.SIGSTOP)
    time.sleep(0.1)
    before, there = storm.place, storm.next_place()
    _copy(before.store, f"{before.root}/", f"{there.root}/")
    adopted = there.start("adopt", "--moved", *WHY)
    if adopted.process.wait() != 0:
        assert LACKS in adopted.log.read_text(), adopted.log.read_text()
        storm.counts["not moved"] += 1
    else:
        storm.place = there
    storm.end()


def copied(storm: Storm) -> None:
    """Continue in a copy, which shares the folders of its sinks with the original."""
    storm.end()
    storm.must("publish")
    before, there = storm.place, storm.next_place()
    _copy(before.store, f"{before.root}/", f"{there.root}/")
    storm.place, storm.oldest = there, _head(storm)
    storm.must("adopt", "--copy", *WHY)
    storm.arrive()
    storm.must("run", *LOCAL, "--adopt-sink")


def restored(storm: Storm) -> None:
    """Restore the repository and its sinks from a backup, so that each object has another ETag."""
    storm.end()
    storm.must("publish")
    store = storm.place.store
    for prefix in (f"{storm.place.root}/", "sinks/"):
        for entry in list(store.list(prefix)):
            data = store.get(entry.name)
            _put_with_another_etag(store, entry.name, data, entry.etag)
            after = store.stat(entry.name)
            assert after is not None and after.etag != entry.etag and store.get(entry.name) == data
    storm.must("verify")


def lost_file(storm: Storm) -> None:
    """Lose a published file, which `publish --from` makes again. That of the original of a copy becomes the copy's."""
    storm.end()
    storm.must("publish")
    store, floor = storm.place.store, _floor(storm)
    versions = {entry.name: _PUBLISHED.search(entry.name) for entry in store.list("sinks/")}
    kept = {name: int(found[1]) for name, found in versions.items() if found and int(found[1]) >= floor}
    if not kept:
        storm.counts["nothing to lose"] += 1
        return
    name, before = storm.chance.choice(sorted(kept)), _published(storm)
    store.delete(name)
    storm.must("publish", "--from", str(kept[name]))
    assert _published(storm) == before


def lost_output(storm: Storm) -> None:
    """Lose the output objects of the newest version, which may not be published yet."""
    storm.end()
    storm.must("publish")
    version = _head(storm) + 1
    storm.arrive()
    if not _killed_after_commit(storm, version):
        return
    store = storm.place.store
    lost = [one.name for one in store.list(f"{storm.place.root}/chaos/output/") if f"/{version:010d}-" in one.name]
    assert lost, f"version {version} has no output"
    store.delete_many(lost)
    status, said = storm.place.said("publish")
    hint = _GO_BACK.search(said)
    assert status in (0, 3) or ("CorruptState" in said and hint is not None), said
    storm.counts["lost before it was published" if hint else "lost after it was published"] += 1
    storm.must("rewind", "--to", hint[1] if hint else str(version - 1), *WHY)
    storm.must("run", *LOCAL)
    storm.must("maintain", "--keep-versions", "1", "--yes")
    storm.must("verify")


DISASTERS: tuple[Callable[[Storm], None], ...] = (moved, copied, restored, lost_file, lost_output)


def _published(storm: Storm) -> dict[str, bytes]:
    """Return what is in the sinks, by names without the repository that published it."""
    store, found = storm.place.store, {}
    for entry in store.list("sinks/"):
        name = re.sub(r"-[0-9a-f]{8}-([0-9a-f]{12}\.)", r"-\1", entry.name)
        assert name not in found, f"{entry.name} is published twice"
        found[name] = store.get(entry.name)
    return found


def _killed_after_commit(storm: Storm, version: int) -> bool:
    """Run until a version is committed, and kill the process then. Return whether it is committed."""
    name = f"{storm.place.root}/chaos/branches/main/commits/{version:010d}.json"
    run = storm.place.start("run", *LOCAL, "--max-batches", "1")
    while storm.place.store.stat(name) is None and run.process.poll() is None:
        time.sleep(0.001)
    run.end()
    return storm.place.store.stat(name) is not None


def _head(storm: Storm) -> int:
    return len(list(storm.place.store.list(f"{storm.place.root}/chaos/branches/main/commits/"))) - 1


def _floor(storm: Storm) -> int:
    """Return the first version whose outputs are kept."""
    return max([0, *(int(entry["version"]) for entry in _entries(storm) if entry["kind"] == "floor")])


def _entries(storm: Storm) -> Iterator[dict[str, Any]]:
    store = storm.place.store
    for entry in store.list(f"{storm.place.root}/chaos/refs/"):
        if re.search(r"/\d{10}\.json$", entry.name):
            yield json.loads(store.get(entry.name))


def _copy(store: Store, before: str, after: str) -> None:
    for entry in list(store.list(before)):
        _put_with_another_etag(store, after + entry.name.removeprefix(before), store.get(entry.name), entry.etag)


def _put_with_another_etag(store: Store, name: str, data: bytes, etag: str) -> None:
    """Store an object so that its ETag is not `etag`: a new file, or an S3 object in parts if it was whole before."""
    path = store.local_path(name)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        made = Path(f"{path}.copy")
        made.write_bytes(data)
        os.replace(made, path)
    elif "-" in etag:
        store.put(name, data)
    else:
        assert isinstance(store, S3Store)
        _put_in_parts(store, name, data)


def _put_in_parts(store: S3Store, name: str, data: bytes) -> None:
    client, (bucket, _, prefix) = store._clients.main, store.uri.removeprefix("s3://").partition("/")
    at = {"Bucket": bucket, "Key": f"{prefix}/{name}"}
    upload = client.create_multipart_upload(**at)["UploadId"]
    part = client.upload_part(**at, UploadId=upload, PartNumber=1, Body=data)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(**at, UploadId=upload, MultipartUpload=parts)
