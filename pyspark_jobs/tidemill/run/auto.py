"""`auto`: which engine runs a batch. A small one does not pay for a JVM, a large one gets all cores of the cluster.

INVARIANT: the choice depends on the plan, the code, the settings, and what the version before says of its state and its
rows, and is made before a JVM starts. Both engines make the same bits, so the choice changes no result.
"""

from __future__ import annotations

from ..pipeline.job import Job
from ..protocol.records import Commit, Plan
from ..settings import Settings

NATIVE_FACTOR = 8
"""How much more input is small if no row costs a call of a Python function."""
FRAMES_DIVISOR = 16
"""How much less input is small if each key costs pandas frames."""
PARQUET_FACTOR = 4
"""How many bytes of text a byte of Parquet stands for."""


ROW_BYTES = 40
"""How many bytes of text a row costs at least, so that short or compressed rows do not count as little input."""


def is_small(job: Job, settings: Settings, head: Commit | None, plan: Plan) -> bool:
    """Whether a batch runs on engine `local`: what waits and the state that it may touch are small.

    Files that wait behind the batch count, because one drain reads them too.
    """
    return (
        waiting_bytes(head, plan) <= local_bytes(job, settings) and state_bytes(job, head) <= settings.local_state_bytes
    )


def waiting_bytes(head: Commit | None, plan: Plan) -> int:
    """Return the input of a plan and what waits behind it, as bytes of text: of the files, or if more, of their rows.

    How many rows there are is estimated from the version before. Without one, the bytes of the files count.
    """
    stored = planned_bytes(plan)
    whole = stored + plan.outstanding_bytes
    text = whole * read_bytes(plan) // stored if stored else whole
    return max(text, (estimated_rows(head, whole) or 0) * ROW_BYTES)


def estimated_rows(head: Commit | None, stored: int) -> int | None:
    """Return about how many rows stored bytes have, given those of the version before; None if it read no file."""
    if head is None or not head.counts.input_bytes:
        return None
    return stored * head.counts.input_rows // head.counts.input_bytes


def planned_bytes(plan: Plan) -> int:
    """Return the input of a plan, as the bytes that are stored."""
    return sum(split.size for split in plan.splits)


def read_bytes(plan: Plan) -> int:
    """Return the input of a plan, as bytes of text."""
    return sum(split.size * (PARQUET_FACTOR if split.path.endswith(".parquet") else 1) for split in plan.splits)


def local_bytes(job: Job, settings: Settings) -> int:
    """Return how much input is small for a pipeline, given what its rows cost."""
    if job.makes_frames:
        return settings.local_bytes // FRAMES_DIVISOR
    return settings.local_bytes if job.functions else settings.local_bytes * NATIVE_FACTOR


def state_bytes(job: Job, head: Commit | None) -> int:
    """Return the size of the state of the job's operators."""
    metrics = {} if head is None else head.operators
    return sum(one.state_bytes for name, one in metrics.items() if name in job.operators)
