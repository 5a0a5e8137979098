"""The names of all objects in a repository, and the rules for names that users choose.

Pure text, no I/O. INVARIANT: a name made here stays inside the repository's folder. A name that comes from a record
must pass `inside` before it is used.
"""

from __future__ import annotations

import re

from .errors import CorruptState, InvalidInput
from .values import dataclass

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_PLAIN = re.compile(r"[A-Za-z0-9_-]")
_VARIABLE = "var-"

BATCH_ID = "_batch_id"
"""The column with the number of the batch, which Tidemill adds to the rows of every sink."""
SEQ = "_seq"
"""The column with the place of a row in its batch, which Tidemill adds beside `_batch_id`."""
ADDED = (BATCH_ID, SEQ)
"""The columns that Tidemill adds to the rows of every sink."""
ENGINES = ("local", "spark")
"""The engines that a user can choose."""
AUTO = "auto"
CHOICES = (AUTO, *ENGINES)
"""What a caller may give as the engine of batches: `auto` chooses one for each batch."""
CONF_ENVIRONMENT = "TIDEMILL_CONF"
"""The environment variable from which the command line reads settings, as JSON."""
ROOT_ENVIRONMENT = "TIDEMILL_ROOT"
"""The environment variable with the root, for the command line, `tm.open` and `tm.read`, if none is given."""
STORAGE_ENVIRONMENT = "TIDEMILL_STORAGE_OPTIONS"
"""The environment variable from which the command line reads storage options, as JSON."""
HEAD_HINT = "head.json"
LEDGER = "_ledger"
LAST_NUMBER = 10**10 - 1
"""The highest number that fits into an object's name."""


def is_name(text: str) -> bool:
    """Whether a text is a name that `check_name` accepts.

    >>> is_name("retail"), is_name("_ledger")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def check_name(name: str, what: str) -> str:
    """Return `name` if it matches `[a-z0-9][a-z0-9-]{0,62}`; otherwise raise `InvalidInput`.

    `what` is the kind of name, for the message: `operator`.
    """
    if isinstance(name, str) and is_name(name):
        return name
    raise InvalidInput(
        f"invalid {what} name {name!r}: expected at most 63 lower-case letters, digits and `-`, "
        "beginning with a letter or digit"
    )


def input_label(operator: str, port: str) -> str:
    """Return how records name an input: `pairs.right`, or the operator alone if its only input has no name.

    >>> input_label("pairs", "right"), input_label("spend", "")
    ('pairs.right', 'spend')
    """
    return f"{operator}.{port}" if port else operator


def operator_of(label: str) -> str:
    """Return the operator of `input_label`.

    >>> operator_of("pairs.right"), operator_of("spend")
    ('pairs', 'spend')
    """
    return label.partition(".")[0]


REFS = "refs/"
"""The prefix of the entries of `refs/`."""
SEEDS = "ref-"
"""How the file of a segment begins that an entry of `refs/` names."""
BY_BATCH, BY_SKIP, BY_REQUEUE = "driver", "skip", "requeue"
"""The last part of the stem of a ledger segment: what kind of commit it was written for."""
REFS_HEAD = REFS + HEAD_HINT
"""The name of the snapshot of `refs/`, which every entry overwrites."""
_RECORD = re.compile(r"([0-9]{10})\.json")


def numbered(prefix: str, number: int) -> str:
    """Return the name of the record with a number in a series of records.

    >>> numbered("refs/", 3)
    'refs/0000000003.json'
    """
    return f"{prefix}{number:010d}.json"


def number_in(prefix: str, name: str) -> int | None:
    """Return the number in a name that `numbered` made, or None for any other name.

    >>> number_in("refs/", "refs/0000000003.json"), number_in("refs/", "refs/head.json")
    (3, None)
    """
    found = _RECORD.fullmatch(name.removeprefix(prefix))
    return int(found[1]) if found and name.startswith(prefix) else None


def ref(number: int) -> str:
    """Return the name of entry `number` of the log of refs."""
    return numbered(REFS, number)


def _branch(branch_id: str) -> str:
    """Return the prefix of all plans and commits of a branch."""
    return f"branches/{branch_id}/"


def plans(branch_id: str) -> str:
    """Return the prefix of all plans of a branch."""
    return f"{_branch(branch_id)}plans/"


def plan(branch_id: str, number: int) -> str:
    """Return the name of the plan of batch `number`."""
    return numbered(plans(branch_id), number)


def commits(branch_id: str) -> str:
    """Return the prefix of all commits of a branch."""
    return f"{_branch(branch_id)}commits/"


def commit(branch_id: str, version: int) -> str:
    """Return the name of the commit that made `version`."""
    return numbered(commits(branch_id), version)


def head_hint(branch_id: str) -> str:
    """Return the name of the hint to a recent commit."""
    return _branch(branch_id) + HEAD_HINT


def touched_hint(branch_id: str) -> str:
    """Return the name of the hint with fingerprints of files that were touched after they were read."""
    return _branch(branch_id) + "touched.json"


PUBLISHED = "published/"
"""The prefix of all records of what sinks made visible."""


def published(branch_id: str, sink: str) -> str:
    """Return the prefix of the records of what a sink of a branch made visible."""
    return f"{PUBLISHED}{branch_id}/{sink}/"


def stem(number: int, attempt: str, range_index: int, task_attempt: str) -> str:
    """Return the part of a file's name that identifies its writer: batch, attempt, range and task attempt."""
    return f"{number:010d}-{attempt}-{range_index:05d}-{task_attempt}"


def again_stem(number: int, attempt: str, index: int, kind: str) -> str:
    """Return the part of a name that identifies the `index`-th object that a commit of a kind wrote again.

    >>> again_stem(12, "3f2a91bc00aa", 0, "forget")
    '0000000012-3f2a91bc00aa-00000-forget'
    """
    return f"{number:010d}-{attempt}-{index:05d}-{kind}"


def seed_stem(number: int, attempt: str) -> str:
    """Return the part of a segment's name that identifies the entry of `refs/` for which a call wrote it."""
    return f"{SEEDS}{number:010d}-{attempt}"


def base_stem(number: int, attempt: str) -> str:
    """Return the part of a segment's name that identifies the entry of `refs/` that names it as merged.

    >>> base_stem(12, "3f2a91bc00aa")
    'ref-0000000012-3f2a91bc00aa-base'
    """
    return f"{seed_stem(number, attempt)}-base"


def needs_plan(name: str) -> bool:
    """Whether an object below `state/`, `output/`, `quarantine/` or `published/` is stored only after a plan.

    Segments for an entry of `refs/`, a `skip` or a `requeue` are stored without one, and stay if the call dies.

    >>> needs_plan("state/_ledger/files/main/0000000000-3f2a91bc00aa-00000-skip.parquet")
    False
    """
    return f"/{SEEDS}" not in name and not name.endswith((f"-{BY_SKIP}.parquet", f"-{BY_REQUEUE}.parquet"))


def segment(operator: str, map_name: str, branch: str, file_stem: str) -> str:
    """Return the name of a segment of one state map of an operator."""
    return f"state/{operator}/{map_name}/{branch}/{file_stem}.parquet"


def part_of(segment: str, number: int) -> str:
    """Return the name of part `number` of a segment that was split because it would be too large.

    Part 0 has the name of the segment itself.

    >>> part_of("segments/0-a.parquet", 0), part_of("segments/0-a.parquet", 2)
    ('segments/0-a.parquet', 'segments/0-a-2.parquet')
    """
    return f"{segment.removesuffix('.parquet')}-{number}.parquet" if number else segment


def map_name(variable: str) -> str:
    """Return the name of the state map of a processor's variable: `var-` and the variable's name.

    Bytes that not every store accepts in a name are written as `.` and two hex digits.

    >>> map_name("numViolations"), map_name("a/ö")
    ('var-numViolations', 'var-a.2f.c3.b6')
    """
    escaped = (c if _PLAIN.fullmatch(c) else "".join(f".{byte:02x}" for byte in c.encode()) for c in variable)
    return _VARIABLE + "".join(escaped)


def variable_name(map_name: str) -> str:
    """Return the variable that a map was named for. A map that belongs to no variable keeps its name.

    >>> variable_name("var-a.2f.c3.b6"), variable_name("timers")
    ('a/ö', 'timers')
    """
    if not map_name.startswith(_VARIABLE):
        return map_name
    escaped = map_name.removeprefix(_VARIABLE).encode()
    return re.sub(rb"\.([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), escaped).decode()


def variable_rule(map_name: str) -> str:
    """Return the key in an operator's `rules` that describes the variable of a map.

    >>> variable_rule("var-a.2f")
    'variable a/'
    """
    return f"variable {variable_name(map_name)}"


def output(sink: str, branch: str, file_stem: str, pass_number: int, part: int, extension: str) -> str:
    """Return the name of an output file of a sink inside the repository, from where it is published."""
    return f"output/{sink}/{branch}/{file_stem}-p{pass_number}-{part:05d}{extension}"


def quarantine_folder(branch: str) -> str:
    """Return the prefix of all files of quarantined rows of a branch."""
    return f"quarantine/{branch}/"


def quarantine_file(branch: str, file_stem: str) -> str:
    """Return the name of a file of quarantined rows."""
    return f"{quarantine_folder(branch)}{file_stem}.parquet"


REQUEUED_FOLDER = "requeued/"
"""The prefix of all objects with requeued rows."""


def requeued(branch: str, file_stem: str, version: int) -> str:
    """Return the name of an object with rows that `version` quarantined and that are read again."""
    return f"{REQUEUED_FOLDER}{branch}/{file_stem}-{version:010d}.parquet"


def requeued_path(name: str) -> str:
    """Return the path of requeued rows in plans and in the ledger. No file of a folder has a path that begins with `/`.

    >>> requeued_path(requeued("main", "0000000012-3f2a91bc00aa-00000-requeue", 7))
    '/requeued/main/0000000012-3f2a91bc00aa-00000-requeue-0000000007.parquet'
    """
    return f"/{name}"


def is_requeued(path: str) -> bool:
    """Whether a path in a plan or in the ledger is one of requeued rows, not of a file."""
    return path.startswith(f"/{REQUEUED_FOLDER}")


def requeued_branch(path: str) -> str:
    """Return the id of the branch that stored the rows of a path that `requeued_path` made.

    >>> requeued_branch("/requeued/main/0000000012-3f2a91bc00aa-00000-requeue-0000000007.parquet")
    'main'
    """
    return path.removeprefix(f"/{REQUEUED_FOLDER}").partition("/")[0]


def requeued_version(path: str) -> int:
    """Return the version that quarantined the rows of a path that `requeued_path` made.

    >>> requeued_version("/requeued/main/0000000012-3f2a91bc00aa-00000-requeue-0000000007.parquet")
    7
    """
    return int(path.removesuffix(".parquet").rpartition("-")[2])


def number_of_file(name: str) -> int | None:
    """Return the number with which the last part of a name begins, or None. A file of a batch begins with it.

    >>> number_of_file("quarantine/main/0000000012-3f2a91bc00aa-00000-1b2c3d4e.parquet"), number_of_file("head.json")
    (12, None)
    """
    found = re.match(r"([0-9]{10})-", name.rpartition("/")[2])
    return int(found[1]) if found else None


@dataclass(frozen=True)
class ObjectOwner:
    """For what an object was stored: version `number` of a branch, or entry `number` of `refs/`."""

    branch: str
    number: int
    is_ref: bool


def owner(name: str) -> ObjectOwner | None:
    """Return for what an object was stored whose name has a version or an entry, or None for any other name.

    >>> owner("state/spend/state/main/0000000012-3f2a91bc00aa-00000-1b2c3d4e.parquet")
    ObjectOwner(branch='main', number=12, is_ref=False)
    >>> owner("state/spend/state/main/ref-0000000003-3f2a91bc00aa.parquet")
    ObjectOwner(branch='main', number=3, is_ref=True)
    """
    folder, _, file = name.rpartition("/")
    is_ref = file.startswith(SEEDS)
    number = number_of_file(file.removeprefix(SEEDS))
    branch_id = folder.rpartition("/")[2]
    return None if number is None or not branch_id else ObjectOwner(branch_id, number, is_ref)


def store_folder(operator: str, partition: int) -> str:
    """Return the folder of one partition of a `StateStore`."""
    return f"stores/{operator}/{partition:05d}/"


STORE_VERSIONS = "versions/"
"""The prefix, within the folder of a `StateStore`, of the records that made its versions."""
STORE_FLOORS = "floors/"
"""The prefix, within the store's folder, of the records of the versions that were dropped."""
STORE_FLOORS_HINT = STORE_FLOORS + HEAD_HINT
"""The name of the hint to a recent floor."""
STORE_SEGMENTS = "segments/"
"""The prefix, within the store's folder, of the segments of all versions."""
_STORE_SEGMENT = re.compile(r"segments/([0-9]{10})-[^/]*")


def store_segment(version: int, attempt: str) -> str:
    """Return the name, within the store's folder, of a segment that one attempt at a version wrote."""
    return f"{STORE_SEGMENTS}{version:010d}-{attempt}.parquet"


def store_segment_version(name: str) -> int | None:
    """Return the version in a name that `store_segment` made, or None for any other name.

    >>> store_segment_version("segments/0000000003-0123456789abcdef.parquet"), store_segment_version("segments/x")
    (3, None)
    """
    found = _STORE_SEGMENT.fullmatch(name)
    return None if found is None else int(found[1])


_OUTSIDE = frozenset(("", ".", ".."))


def inside(name: str) -> str:
    """Return `name`, which comes from a record, if it stays inside the repository; otherwise raise `CorruptState`."""
    if _OUTSIDE.isdisjoint(name.split("/")) and "\\" not in name:
        return name
    raise CorruptState(f"a record names the object {name!r}, which is outside the repository")
