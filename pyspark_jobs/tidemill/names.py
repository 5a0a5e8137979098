"""Every name of an object in a repository, and which names a user may choose.

Pure text. INVARIANT: a name made here cannot leave the repository's folder; a name read from a record is
checked by `inside` before it is used.
"""

from __future__ import annotations

import re

from .errors import CorruptState, InvalidInput

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_PLAIN = re.compile(r"[A-Za-z0-9_-]")
_VARIABLE = "var-"

BATCH_ID = "_batch_id"
"""The column with the number of the batch, which Tidemill adds to the rows of every sink."""
ENGINES = ("local", "spark")
"""What a user may call an engine."""
HEAD_HINT = "head.json"
LEDGER = "_ledger"
LAST_NUMBER = 10**10 - 1
"""The highest number that fits a name."""


def check_name(name: str, what: str) -> str:
    """`name` if it is allowed (`[a-z0-9][a-z0-9-]{0,62}`), else `InvalidInput`; `what` says what it names."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise InvalidInput(
        f"{what} name {name!r} is not allowed: expected lower-case letters, digits and `-`, "
        "beginning with a letter or digit, at most 63 characters"
    )


def ref(number: int) -> str:
    """Entry `number` of the log of refs."""
    return f"refs/{number:010d}.json"


def plan(branch: str, number: int) -> str:
    """The plan of batch `number`."""
    return f"branches/{branch}/plans/{number:010d}.json"


def commit(branch: str, version: int) -> str:
    """The commit that made `version`."""
    return f"{commits(branch)}{version:010d}.json"


def commits(branch: str) -> str:
    """The prefix of all commits of a branch."""
    return f"branches/{branch}/commits/"


def head_hint(branch: str) -> str:
    """The overwritten hint to the newest commit."""
    return f"branches/{branch}/{HEAD_HINT}"


def stem(number: int, attempt: str, range_index: int, task_attempt: str) -> str:
    """What every file that a try writes is called: batch, attempt, range, task attempt."""
    return f"{number:010d}-{attempt}-{range_index:05d}-{task_attempt}"


def seed_stem(uuid: str) -> str:
    """What the segments of an initial state are called: `init`, and an id of the call that wrote them."""
    return f"init-{uuid}"


def segment(operator: str, map_name: str, branch: str, file_stem: str) -> str:
    """A segment of one map of one operator."""
    return f"state/{operator}/{map_name}/{branch}/{file_stem}.parquet"


def part_of(segment: str, number: int) -> str:
    """Number `number` of the segments written in place of one that would be too large; the first has its name.

    >>> part_of("segments/0-a.parquet", 0), part_of("segments/0-a.parquet", 2)
    ('segments/0-a.parquet', 'segments/0-a-2.parquet')
    """
    return f"{segment.removesuffix('.parquet')}-{number}.parquet" if number else segment


def map_name(variable: str) -> str:
    """The map of a processor's variable: `var-` and its name, what a store may not like as `.` and the byte in hex.

    >>> map_name("numViolations"), map_name("a/ö")
    ('var-numViolations', 'var-a.2f.c3.b6')
    """
    escaped = (c if _PLAIN.fullmatch(c) else "".join(f".{byte:02x}" for byte in c.encode()) for c in variable)
    return _VARIABLE + "".join(escaped)


def variable_name(map_name: str) -> str:
    """The variable that a map was named for; the name itself of a map that belongs to none.

    >>> variable_name("var-a.2f.c3.b6"), variable_name("timers")
    ('a/ö', 'timers')
    """
    if not map_name.startswith(_VARIABLE):
        return map_name
    escaped = map_name.removeprefix(_VARIABLE).encode()
    return re.sub(rb"\.([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), escaped).decode()


def variable_rule(map_name: str) -> str:
    """The rule of an operator that says what the variable of a map is.

    >>> variable_rule("var-a.2f")
    'variable a/'
    """
    return f"variable {variable_name(map_name)}"


def output(sink: str, branch: str, file_stem: str, pass_number: int, part: int, extension: str) -> str:
    """A committed output file of a sink, before it is published."""
    return f"output/{sink}/{branch}/{file_stem}-p{pass_number}-{part:05d}{extension}"


def called(sink: str, version: int) -> str:
    """That a function has been called with one version of a sink."""
    return f"called/{sink}/{version:010d}.json"


def quarantine(branch: str, file_stem: str) -> str:
    """Rows of one batch that could not be used."""
    return f"quarantine/{branch}/{file_stem}.parquet"


def store_folder(operator: str, partition: int) -> str:
    """Where the versions of one partition of a `StateStore` lie."""
    return f"stores/{operator}/{partition:05d}/"


def store_version(version: int) -> str:
    """The record that made a version of a `StateStore`, within its folder."""
    return f"versions/{version:010d}.json"


def store_floor(version: int) -> str:
    """The entry that lets go of the versions of a `StateStore` below `version`, within its folder."""
    return f"floors/{version:010d}.json"


def store_segment(version: int, attempt: str) -> str:
    """A segment that one attempt at a version of a `StateStore` wrote, within its folder."""
    return f"segments/{version:010d}-{attempt}.parquet"


def inside(name: str) -> str:
    """`name`, which a record gave, if it stays inside the repository; else `CorruptState`."""
    parts = name.split("/")
    if name and not name.startswith("/") and all(part not in ("", ".", "..") for part in parts) and "\\" not in name:
        return name
    raise CorruptState(f"a record names the object {name!r}, which lies outside the repository")
