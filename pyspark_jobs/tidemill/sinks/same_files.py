"""Which files need not be published again, because a file that would be withdrawn has the same content.

Pure. INVARIANT: the same files give the same names, so that processes which publish a version at once agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..protocol.records import OutputFile, PublishedFile
from .contract import Owner
from .public import parsed


def same_files(
    adds: Sequence[tuple[int, OutputFile]], there: Iterable[PublishedFile], owner: Owner
) -> Mapping[int, PublishedFile]:
    """Return the files that have the content of added ones, by the places of these in the commit's list.

    A file is the same if it has the same content, partition folder and extension. Each is given once, and none of
    another repository.
    """
    left: dict[tuple[str, str], list[PublishedFile]] = {}
    for one in there:
        public = parsed(one.name)
        if public is None or public.is_ours(owner):
            left.setdefault((one.checksum, one.name.rpartition("/")[0]), []).append(one)
    found = {}
    for place, file in adds:
        candidates = left.get((file.checksum, file.suffix.rstrip("/")), [])
        same = next((one for one in candidates if one.name.endswith(file.extension)), None)
        if same is not None:
            candidates.remove(same)
            found[place] = same
    return found
