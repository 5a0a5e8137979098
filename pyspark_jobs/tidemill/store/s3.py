"""A store in an S3 bucket, or on an S3-compatible server, by boto3.

`s3_client` makes clients with credentials, and `s3_errors` turns errors into the five kinds. INVARIANT: a conditional
create is sent once a call. If a client retried it, a lost success of its first attempt would look like another writer.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..counts import count_of
from ..errors import StoreUnavailable
from .contract import (
    TEMPORARY,
    Enters,
    ListedObject,
    ObjectMissing,
    ObjectReplaced,
    Skipped,
    Store,
    check_range,
    checked_name,
    checked_prefix,
    get_unchanged,
)
from .s3_client import Clients, clients
from .s3_errors import Cause, cause_of, translate_errors
from .s3_uri import parse_s3_uri, uri_of

CONFLICT_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""How long to wait after each 409, which means that nothing was stored and a retry is allowed."""

BROKEN_OFF_TRIES = 3
DELETE_AT_ONCE = 1000
REQUESTS_AT_ONCE = 16
"""How many requests that do not depend on each other one caller makes at once. Several callers may be at work."""
COPY_PART_BYTES = 512 * 1024**2
COPY_WHOLE_BYTES = 5 * 1024**3
"""The largest object that S3 copies in one request; a larger one is copied in parts."""


def open_s3(rest: str, options: Mapping[str, Any]) -> S3Store:
    """Return the store at `s3://` and `rest` (`bucket/prefix`). Checks only names and options; sends no request."""
    bucket, prefix = parse_s3_uri(rest)
    store = S3Store(bucket, "", clients(options), dict(options))
    return store.at(prefix) if prefix else store


class S3Store:
    """Objects of a bucket below a prefix. Shares its clients with all stores of the same options in this process."""

    def __init__(self, bucket: str, prefix: str, clients_: Clients, options: dict[str, Any]) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._made = clients_
        self._options = options

    @property
    def uri(self) -> str:
        """`s3://bucket/prefix`."""
        return uri_of(self._bucket, self._prefix)

    @property
    def _clients(self) -> Clients:
        if self._made.process != os.getpid():
            self._made = clients(self._options)
        return self._made

    @property
    def lists_after(self) -> bool:
        """True: `StartAfter`."""
        return True

    @property
    def requests_at_once(self) -> int:
        """Several, but not more than there are connections."""
        connections = int(float(self._options.get("max_pool_connections", REQUESTS_AT_ONCE)))
        return max(1, min(REQUESTS_AT_ONCE, connections))

    def clock_ms(self) -> int | None:
        """Return the `Date` of the last answer plus the time since."""
        return self._clients.clock.now_ms()

    def __repr__(self) -> str:
        return f"S3Store({self.uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return open_s3, (f"{self._bucket}/{self._prefix}", self._options)

    def get(self, name: str) -> bytes:
        """One GET."""
        return self._read(name, {})[0]

    def read(self, name: str) -> tuple[bytes, ListedObject]:
        """One GET, whose answer has the entry of the bytes."""
        data, answer = self._read(name, {})
        return data, _entry(name, len(data), answer)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """One ranged GET."""
        check_range(start, length)
        if length == 0:
            if self.stat(name) is None:
                raise ObjectMissing(name, self.uri)
            return b""
        return self._read(name, {"Range": f"bytes={start}-{start + length - 1}"})[0]

    def put(self, name: str, data: bytes) -> str | None:
        """One PUT, which boto3 retries."""
        with self._translating("write", name):
            return _etag(self._clients.main.put_object(**self._where(name), Body=data))

    def put_hint(self, name: str, data: bytes) -> None:
        """Same as `put`."""
        self.put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """One PUT with `If-None-Match: *`. It is retried only after a 409, which stored nothing."""
        for pause_s in (0, *CONFLICT_PAUSES_S):
            time.sleep(pause_s)
            cause = self._create_once(name, data)
            if cause is not Cause.CONFLICT:
                return cause is None
        raise StoreUnavailable(
            f"create `{self.uri}/{name}`: {len(CONFLICT_PAUSES_S) + 1} attempts were answered 409, because another "
            "writer is busy",
            hint="run again",
        )

    def copy(self, source: str, target: str, etag: str | None = None) -> str | None:
        """One COPY, with `x-amz-copy-source-if-match` if an ETag is given. Above 5 GiB it is copied in parts."""
        return self.copy_from(self, source, target, etag)

    def copy_from(self, origin: Store, source: str, target: str, etag: str | None = None) -> str | None:
        """Copy server-side from S3 opened with the same options, else read and write."""
        if not isinstance(origin, S3Store) or not self.copies_from(origin):
            return self.put(target, get_unchanged(origin, source, etag))
        condition = {} if etag is None else {"CopySourceIfMatch": f'"{etag}"'}
        with self._translating("copy to", target):
            try:
                return self._copy(origin._where(source), target, condition)
            except Exception as error:
                if cause_of(error) is Cause.MISSING:
                    raise ObjectMissing(source, origin.uri) from None
                if cause_of(error) is Cause.TAKEN and etag is not None:
                    raise ObjectReplaced(source, origin.uri, etag) from None
                raise

    def copies_from(self, origin: Store) -> bool:
        """Return whether `origin` is on S3, opened with the same options."""
        return isinstance(origin, S3Store) and origin._options == self._options

    def list(
        self, prefix: str = "", start_after: str | None = None, enters: Enters | None = None
    ) -> Iterator[ListedObject]:
        """Yield entries from pages of 1,000 names, without the empty objects that mark folders.

        Keys that no store can address, such as `a//b` or one with a backslash, are skipped with a warning.
        """
        del enters
        request = {"Bucket": self._bucket, "Prefix": self._prefix + checked_prefix(prefix)}
        if start_after:
            request["StartAfter"] = self._prefix + start_after
        skipped = Skipped(self.uri)
        with self._translating("list", prefix), contextlib.closing(skipped):
            for page in self._clients.main.get_paginator("list_objects_v2").paginate(**request):
                for found in page.get("Contents", ()):
                    name = found["Key"].removeprefix(self._prefix)
                    if not _is_folder_mark(name) and not skipped.has(name):
                        yield _entry(name, found["Size"], found)

    def stat(self, name: str) -> ListedObject | None:
        """One HEAD; a bucket that does not exist looks like a missing object here."""
        with self._translating("stat", name):
            try:
                found = self._clients.main.head_object(**self._where(name))
            except Exception as error:
                if cause_of(error) is Cause.MISSING:
                    return None
                raise
        return _entry(name, found["ContentLength"], found)

    def delete(self, name: str) -> None:
        """One DELETE."""
        with self._translating("delete", name):
            self._clients.main.delete_object(**self._where(name))

    def delete_many(self, names: Iterable[str]) -> None:
        """One request for 1,000 names; one DELETE for each name that it did not delete, which reports the reason."""
        keys = [self._where(name)["Key"] for name in names]
        for first in range(0, len(keys), DELETE_AT_ONCE):
            for key in self._not_deleted(keys[first : first + DELETE_AT_ONCE]):
                self.delete(key.removeprefix(self._prefix))

    def at(self, prefix: str) -> S3Store:
        """Return the same bucket below `prefix`, with the same clients."""
        below = f"{self._prefix}{checked_name(prefix.rstrip('/'))}/"
        return S3Store(self._bucket, below, self._clients, self._options)

    def local_path(self, name: str) -> str | None:
        """Return None, because objects are not files."""
        checked_name(name)
        return None

    def _where(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + checked_name(name)}

    def _read(self, name: str, extra: dict[str, str]) -> tuple[bytes, Mapping[str, Any]]:
        """Return the bytes and the answer that had them.

        Retry if the answer breaks off. boto3 retries failed requests, but not those.
        """
        with self._translating("read", name):
            for _ in range(BROKEN_OFF_TRIES - 1):
                try:
                    return self._read_once(name, extra)
                except Exception as error:
                    if cause_of(error) is not Cause.BROKEN_OFF:
                        raise
            return self._read_once(name, extra)

    def _read_once(self, name: str, extra: dict[str, str]) -> tuple[bytes, Mapping[str, Any]]:
        try:
            answer = self._clients.main.get_object(**self._where(name), **extra)
            return answer["Body"].read(), answer
        except Exception as error:
            if cause_of(error) is Cause.BEYOND_END:
                return b"", {}
            if cause_of(error) is Cause.MISSING:
                raise ObjectMissing(name, self.uri) from None
            raise

    def _create_once(self, name: str, data: bytes) -> Cause | None:
        """Return None if this call created the object, or TAKEN or CONFLICT if the server answers that."""
        with self._translating("create", name):
            try:
                self._clients.once.put_object(**self._where(name), Body=data, IfNoneMatch="*")
                return None
            except Exception as error:
                cause = cause_of(error)
                if cause in (Cause.TAKEN, Cause.CONFLICT):
                    return cause
                raise

    def _not_deleted(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete keys in one request. Return those that remain: all, if the server does not support the request."""
        what = f"delete {count_of(len(keys), 'object')} of `{self.uri}`"
        with translate_errors(what, self._bucket, self._clients.endpoint):
            try:
                objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
                answer = self._clients.main.delete_objects(Bucket=self._bucket, Delete=objects)
            except Exception as error:
                if cause_of(error) is Cause.UNSUPPORTED:
                    return keys
                raise
        return [error["Key"] for error in answer.get("Errors", ()) if error.get("Code") != "NoSuchKey"]

    def _copy(self, source: dict[str, str], target: str, condition: dict[str, str]) -> str | None:
        """Copy in one request. Only if the server refuses that, ask for the size, and copy in parts if it is large."""
        try:
            done = self._clients.main.copy_object(CopySource=source, **self._where(target), **condition)
            return _etag(done["CopyObjectResult"])
        except Exception as error:
            if cause_of(error) is not Cause.UNSUPPORTED:
                raise
        return self._copy_in_parts(source, target, condition)

    def _copy_in_parts(self, source: dict[str, str], target: str, condition: dict[str, str]) -> str | None:
        from boto3.s3.transfer import TransferConfig

        config = TransferConfig(multipart_threshold=COPY_WHOLE_BYTES, multipart_chunksize=COPY_PART_BYTES)
        self._clients.main.copy(source, **self._where(target), ExtraArgs=condition, Config=config)
        return _etag(self._clients.main.head_object(**self._where(target)))

    def _translating(self, verb: str, name: str) -> AbstractContextManager[None]:
        return translate_errors(f"{verb} `{self.uri}/{name}`", self._bucket, self._clients.endpoint)


def _etag(answer: Mapping[str, Any]) -> str | None:
    return answer["ETag"].strip('"') if answer.get("ETag") else None


def _is_folder_mark(name: str) -> bool:
    """Return whether a name is an empty object with which consoles mark a folder, or is under `.tmp`."""
    return not name or name.endswith("/") or TEMPORARY in name.split("/")


def _entry(name: str, size: int, found: Mapping[str, Any]) -> ListedObject:
    # HEAD returns whole seconds, but some servers list milliseconds. An object must have one time.
    modified_ms = int(found["LastModified"].timestamp()) * 1000
    return ListedObject(name, size, found["ETag"].strip('"'), modified_ms)
