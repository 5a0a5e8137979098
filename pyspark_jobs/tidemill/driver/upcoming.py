"""What the next batch will read, so that a thread reads it while the batch before it is carried out.

It is a guess: a plan alone decides what a batch reads. INVARIANT: nothing here raises, or is asked of a remote store.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ..batch.batch import reading_of
from ..batch.input import SMALL_BYTES, columns_read
from ..pipeline.job import Job
from ..protocol import decide
from ..protocol.records import Plan, Split
from ..sources.contract import BeingRead, SourceFile
from .context import Context

MOST_FILES = 8
MOST_BYTES = 16 * 1024**2
"""How many files are read ahead at most, and how many bytes they have."""
KEPT_BYTES = 64 * 1024**2
"""How many bytes their rows take at most. A file with more is read when its batch begins."""


def upcoming(context: Context, waiting: Mapping[str, Sequence[SourceFile]], plan: Plan) -> list[Split]:
    """Return the first splits of the batch after a plan, given the files that waited for the plan, by source."""
    planned = {(split.source, split.path) for split in plan.splits}
    options = dict(context.storage_options.get("source") or {})
    found: list[Split] = []
    for name, files in waiting.items():
        source = context.job.sources[name]
        left = itertools.islice((one for one in files if (name, one.path) not in planned), MOST_FILES)
        picked = decide.choose(list(left), source.intake.max_files, source.intake.max_bytes)
        if sum(one.size for one in picked) > MOST_BYTES:
            picked = picked[:1]
        if picked and picked[0].size <= MOST_BYTES:
            with contextlib.suppress(Exception):  # an error comes again when the batch is planned
                found += source.splits(picked, options, context.settings.split_bytes)
    return found


def begin_reading(
    job: Job, storage_options: Mapping[str, Mapping[str, Any]], splits: Sequence[Split], block_rows: int
) -> dict[tuple[str, str], BeingRead]:
    """Begin to read the first splits of a batch, as far as their sources can. Return them by source and path.

    Small files that are read together are left to the batch.
    """
    context, chosen, size = reading_of(job, storage_options), [], 0
    for split in splits[:MOST_FILES]:
        size += split.size
        is_part = split.requeued is not None or split.row_groups is not None
        if is_part or size > MOST_BYTES or (len(splits) > 1 and split.size <= SMALL_BYTES):
            break
        chosen.append(split)
    found = {}
    for split in chosen:
        begin = getattr(job.sources[split.source], "read_ahead", None)
        with contextlib.suppress(Exception):  # an error comes again when the file is read
            of_source = columns_read(job, split.source, context)
            ahead = None if begin is None else begin(split, block_rows, of_source, KEPT_BYTES // len(chosen))
            if ahead is not None:
                found[split.source, split.path] = ahead
    return found
