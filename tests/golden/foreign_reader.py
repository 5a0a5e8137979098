"""A reader of repositories in folders that shares no code with Tidemill and follows only docs/format.md.

It reads the head, a branch, old versions, state and outputs. `Corrupt` is raised for whatever the page calls corrupt.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import struct
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

Record = dict[str, Any]


class Corrupt(Exception):
    """The repository contradicts the page."""


class Reader:
    """The repository in the folder `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.branches: dict[str, Record] = {"main": {"id": "main", "fork_version": -1}}
        self.schemas: dict[str, Record] = {}
        self.seeds: dict[str, Record] = {}
        self.tags: dict[str, tuple[str, int]] = {}
        self.entries: list[Record] = []
        for number in range(10**10):
            if not (path / f"refs/{number:010d}.json").exists():
                break
            self._fold(self._record(f"refs/{number:010d}.json"), number)
        if not self.entries:
            raise Corrupt("no init record")

    def head(self, branch: str = "main") -> Record:
        """Return the newest commit of a branch: all names are listed, and none below the greatest may be missing."""
        known = self.branches[branch]
        found = sorted((self.path / f"branches/{known['id']}/commits").glob("*.json"))
        numbers = [int(name.stem) for name in found]
        first = known["fork_version"] + 1
        if numbers != list(range(first, first + len(numbers))):
            raise Corrupt(f"commits are missing: found {numbers}")
        return self.commit(numbers[-1] if numbers else first - 1, branch)

    def commit(self, version: int, branch: str = "main") -> Record:
        """Return the commit that made a version, which follows its parent."""
        branch_id, name = self._place(branch, version)
        found = self._record(name)
        if (found["branch"], found["version"]) != (branch_id, version):
            raise Corrupt(f"{name} is of another place")
        if version == 0:
            parent = {"branch": "", "version": -1, "checksum": self.entries[0]["checksum"]}
        else:
            before_id, before = self._place(branch, version - 1)
            parent = {"branch": before_id, "version": version - 1, "checksum": self._record(before)["checksum"]}
        if found["parent"] != parent:
            raise Corrupt(f"{name} has another parent")
        if self.entries[found["refs_through"]]["checksum"] != found["refs_checksum"]:
            raise Corrupt(f"{name} knows other entries of refs")
        return found

    def state(self, commit: Record, operator: str, map_name: str) -> list[Record]:
        """Return the live rows of a map: of each (key, sub-key) the row of the newest segment, unless it is deleted."""
        segments = commit["state"].get(operator)
        if segments is None:
            segments = self.seeds.get(operator, {})
        newest: dict[tuple[bytes, ...], tuple[int, Record]] = {}
        for segment in segments.get(map_name, []):
            for key, hash_, row in self._rows(segment):
                shown = int(segment["lo"], 16) <= hash_ <= int(segment["hi"], 16)
                if shown and (key not in newest or newest[key][0] < segment["sequence"]):
                    newest[key] = segment["sequence"], row
        live = [row for _, row in newest.values() if not row.pop("deleted")]
        if len(live) != commit["rows"].get(operator, {}).get(map_name, len(live)):
            raise Corrupt(f"{operator}, {map_name}: found {len(live)} rows, which the commit contradicts")
        return live

    def outputs(self, commit: Record, sink: str) -> list[Record]:
        """Return the rows of a sink, in canonical order."""
        rows: list[Record] = []
        for file in commit["outputs"].get(sink, []):
            data = self._object(file)
            if file.get("extension", ".parquet") == ".json":
                rows += [json.loads(line) for line in data.decode().splitlines()]
            else:
                rows += pq.read_table(io.BytesIO(data)).to_pylist()
        return rows

    def _place(self, branch: str, version: int) -> tuple[str, str]:
        """Return the id of the branch that has a version, and the name of its commit, below the fork too."""
        known = self.branches[branch]
        while version <= known["fork_version"]:
            known = next(one for one in self.branches.values() if one["id"] == known["fork_branch"])
        return known["id"], f"branches/{known['id']}/commits/{version:010d}.json"

    def _fold(self, entry: Record, number: int) -> None:
        before = self.entries[-1]["checksum"] if self.entries else ""
        if (entry["number"], entry["parent"]) != (number, before) or (entry["kind"] == "init") != (number == 0):
            raise Corrupt(f"entry {number} does not follow entry {number - 1}")
        self.entries.append(entry)
        if entry["kind"] in ("init", "operators"):
            for name in [*entry.get("removed", []), *entry.get("schemas", {})]:
                self.schemas.pop(name, None)
                self.seeds.pop(name, None)
            self.schemas |= entry.get("schemas", {})
            self.seeds |= entry.get("seeds", {})
        elif entry["kind"] == "branch":
            self.branches[entry["name"]] = entry
        elif entry["kind"] == "drop-branch":
            del self.branches[entry["name"]]
        elif entry["kind"] == "tag":
            self.tags[entry["name"]] = entry["branch"], entry["version"]
        elif entry["kind"] not in ("base", "drop-bases", "hold", "floor", "adopt") and not entry.get("ignorable"):
            raise Corrupt(f"a newer writer wrote entry {number}")

    def _record(self, name: str) -> Record:
        data = (self.path / name).read_bytes()
        end = re.fullmatch(rb',"checksum":"([0-9a-f]{32})"}', data[-47:])
        if end is None or end[1].decode() != _checksum(data[:-47]):
            raise Corrupt(f"{name}: wrong checksum")
        found: Record = json.loads(data)
        if found.get("format", 1) != 1 or found.get("requires"):
            raise Corrupt(f"a newer writer wrote {name}")
        return found

    def _object(self, named: Record) -> bytes:
        data = (self.path / named["name"]).read_bytes()
        if (len(data), _checksum(data)) != (named["size"], named["checksum"]):
            raise Corrupt(f"{named['name']} differs from its record")
        return data

    def _rows(self, segment: Record) -> Iterator[tuple[tuple[bytes, ...], int, Record]]:
        """Yield the rows of a segment with the bytes of their keys and their hash."""
        file = pq.ParquetFile(io.BytesIO(self._object(segment)))
        keys = int(file.metadata.metadata[b"tidemill.key_columns"])
        subs = int(file.metadata.metadata[b"tidemill.sub_key_columns"])
        fields = list(file.schema_arrow)[: keys + subs]
        for row in file.read().to_pylist():
            cells = [b"\xff" if row[one.name] is None else _cell(row[one.name], one.type) for one in fields]
            hash_ = 0
            for cell in cells[:keys]:
                hash_ = xxhash.xxh3_64_intdigest(cell, hash_)
            yield tuple(_part(row[one.name], one.type) for one in fields), hash_, row


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _cell(value: Any, kind: pa.DataType) -> bytes:
    """Return the canonical bytes of a cell that is not null."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return bytes([value]) if pa.types.is_boolean(kind) else struct.pack("<q", value)
    if pa.types.is_floating(kind):
        return bytes.fromhex("000000000000f87f") if math.isnan(value) else struct.pack("<d", value + 0.0)
    if pa.types.is_date(kind):
        return struct.pack("<q", (value - date(1970, 1, 1)).days)
    if pa.types.is_timestamp(kind):
        return struct.pack("<q", (value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // timedelta(microseconds=1))
    if pa.types.is_decimal(kind):
        return int(Context(prec=76).scaleb(value, kind.scale)).to_bytes(16, "little", signed=True)
    if pa.types.is_struct(kind):
        return b"".join(_part(value[field.name], field.type) for field in kind)
    if pa.types.is_map(kind):
        pairs = sorted((_part(key, kind.key_type), _part(item, kind.item_type)) for key, item in value)
        return struct.pack("<I", len(pairs)) + b"".join(key + item for key, item in pairs)
    if pa.types.is_list(kind):
        return struct.pack("<I", len(value)) + b"".join(_part(item, kind.value_type) for item in value)
    return value.encode() if isinstance(value, str) else bytes(value)


def _part(value: Any, kind: pa.DataType) -> bytes:
    if value is None:
        return b"\0"
    spelled = _cell(value, kind)
    return b"\1" + (struct.pack("<I", len(spelled)) if kind in (pa.string(), pa.binary()) else b"") + spelled
