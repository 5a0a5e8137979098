"""An archive of what workers need: Tidemill, the packages that it needs, and modules of the user.

It is for workers that have Python and Spark, and nothing else. Spark unpacks it beside each executor
(`spark.archives`), and `spark.executorEnv.PYTHONPATH` names the folder. INVARIANT: the archive holds files of
installed packages as they are, at relative names, so it can be unpacked anywhere. The same installation gives the same
bytes.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import io
import json
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..errors import InvalidInput
from ..values import dataclass
from .worker import MANIFEST, built_for

_FOLDER = "tidemill-env"
"""The name under which Spark unpacks the archive."""
_OURS = "tidemill"
_OF_SPARK = frozenset(("pyspark", "pyspark-client", "py4j"))
"""Packages that workers have from Spark itself, and that must fit it."""


@dataclass(frozen=True)
class Packed:
    """An archive: its path, size, number of files, the versions of its packages, and the modules of the user."""

    path: str
    bytes: int
    files: int
    packages: Mapping[str, str]
    modules: Sequence[str]
    python: str
    machine: str

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that give the archive to the executors."""
        return settings_of(self.path)


def settings_of(path: str) -> dict[str, str]:
    """Return the settings of Spark that give an archive, at a path or a URI, to the executors."""
    return {"spark.archives": f"{path}#{_FOLDER}", "spark.executorEnv.PYTHONPATH": _FOLDER}


def pack(target: Path, packages: Iterable[str] = (), modules: Iterable[str] = ()) -> Packed:
    """Write the archive of this interpreter's Tidemill, its packages, those that are named, and modules of the user.

    `packages` are names of installed distributions; what they require comes along. `modules` are importable modules and
    packages that no distribution installed. PySpark stays out, because workers have it. The archive fits workers with
    the same minor version of Python, system and architecture. `InvalidInput` for what is not installed, or is installed
    in a way that cannot be copied.
    """
    found = _closure([_OURS, *packages])
    files: dict[str, Path | bytes] = {}
    for name in sorted(found):
        files |= _files_of(found[name], name)
    names = sorted(set(modules))
    for module in names:
        files |= _module(module)
    versions = {name: found[name].version for name in sorted(found)}
    manifest = {"packages": versions, "modules": names, **built_for()}
    files[MANIFEST] = json.dumps(manifest, indent=1, sort_keys=True).encode()
    _write(target, files)
    return Packed(str(target.resolve()), target.stat().st_size, len(files), versions, names, **built_for())


def _closure(names: Sequence[str]) -> dict[str, importlib.metadata.Distribution]:
    """Return the distributions, and all that they require on this platform."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [(Requirement(name), "") for name in names]
    while waiting:
        requirement, by = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or name in _OF_SPARK:
            continue
        try:
            one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise InvalidInput(
                f"pack: the package `{requirement.name}`{by} is not installed in {sys.executable}",
                hint="install it there; for a module without a package, use --module",
            ) from error
        found[name] = one
        for text in one.requires or ():
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append((needed, f", which `{name}` requires,"))
    return found


def _files_of(one: importlib.metadata.Distribution, name: str) -> dict[str, Path | bytes]:
    """Return the files of a distribution by their names below the folder of packages."""
    if name == _OURS:  # also from a checkout, of which only the package counts
        package = Path(__file__).resolve().parents[1]
        metadata = (one.read_text("METADATA") or "").encode()
        return {**_tree(package, _OURS), f"{_OURS}-{one.version}.dist-info/METADATA": metadata}
    direct = json.loads(one.read_text("direct_url.json") or "{}")
    if direct.get("dir_info", {}).get("editable"):
        raise InvalidInput(f"pack: `{name}` is installed from a folder ({direct.get('url')}), so its files may change",
                           hint="install it as a wheel, or name its modules with --module")  # fmt: skip
    files: dict[str, Path | bytes] = {}
    for file in one.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts and not file.name.endswith(".pyc"):
            path = Path(str(one.locate_file(file)))
            if path.is_file():
                files[str(file)] = path
    if not files:
        raise InvalidInput(f"pack: `{name}` has no list of its files", hint="install it with pip or uv")
    return files


def _module(name: str) -> dict[str, Path | bytes]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise InvalidInput(f"pack: cannot find the module `{name}`: {error}") from error
    if spec is None or (spec.origin is None and not spec.submodule_search_locations):
        raise InvalidInput(f"pack: there is no module `{name}`", hint="run it where the module can be imported")
    relative = name.replace(".", "/")
    if spec.submodule_search_locations:
        return _tree(Path(next(iter(spec.submodule_search_locations))), relative)
    assert spec.origin is not None
    return {f"{relative}{Path(spec.origin).suffix}": Path(spec.origin)}


def _tree(folder: Path, name: str) -> dict[str, Path | bytes]:
    found: dict[str, Path | bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found[f"{name}/{path.relative_to(folder).as_posix()}"] = path
    return found


def _write(target: Path, files: Mapping[str, Path | bytes]) -> None:
    """Write the archive whole or not at all."""
    unfinished = target.with_name(f".{target.name}.part")
    try:
        with (
            unfinished.open("wb") as raw,
            gzip.GzipFile("", "wb", 3, raw, 0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, size, data in _entries(files):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = size, 0o755 if name.endswith(".so") else 0o644
                archive.addfile(entry, data)
        os.replace(unfinished, target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InvalidInput(f"pack: cannot write `{target}`: {error.strerror}") from error


def _entries(files: Mapping[str, Path | bytes]) -> Iterator[tuple[str, int, IO[bytes]]]:
    for name, content in sorted(files.items(), key=lambda one: one[0]):
        if isinstance(content, bytes):
            yield name, len(content), io.BytesIO(content)
        else:
            with content.open("rb") as data:
                yield name, os.fstat(data.fileno()).st_size, data
