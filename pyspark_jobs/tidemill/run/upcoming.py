"""What the next batch will read, so that a thread reads it while the batch before it is carried out.

It is a guess: a plan alone decides what a batch reads. Whatever is raised here must not end the batch that runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ..batch.batch import reading_of
from ..batch.input import SMALL_BYTES, columns_read
from ..pipeline.job import Job
from ..protocol import decide
from ..protocol.records import Plan, Split
from ..repo.opened import Context
from ..sources import asked
from ..sources.contract import BeingRead, SourceFile

MOST_FILES = 8
MOST_BYTES = 16 * 1024**2
"""How many files are read ahead at most, and how many bytes they have."""
KEPT_BYTES = 64 * 1024**2
"""About how many bytes their rows take at most."""


def upcoming(context: Context, waiting: Mapping[str, Sequence[SourceFile]], plan: Plan) -> list[Split]:
    """Return the first splits of the batch after a plan, given the files that waited for the plan, by source.

    They are of one source, which can read ahead. Large files are left out, so that none is opened to split it.
    """
    planned = {(split.source, split.path) for split in plan.splits}
    options = dict(context.storage_options.get("source") or {})
    for name, files in waiting.items():
        source = context.job.sources[name]
        left = itertools.islice((one for one in files if (name, one.path) not in planned), MOST_FILES + 1)
        intake = asked.intake_of(source)
        picked = decide.choose(list(left), intake.max_files, intake.max_bytes)
        if picked and asked.reads_ahead(source) is not None and all(one.size <= MOST_BYTES for one in picked):
            return asked.splits(source, picked, options, max(MOST_BYTES, context.settings.split_bytes))
    return []


def begin_reading(
    job: Job, storage_options: Mapping[str, Mapping[str, Any]], splits: Sequence[Split], block_rows: int
) -> dict[tuple[str, str], BeingRead]:
    """Begin to read the first splits of a batch, as far as their source can. Return them by source and path.

    Small files that are read together are left to the batch.
    """
    chosen: list[Split] = []
    for split in splits[:MOST_FILES]:
        is_part = split.requeued is not None or split.row_groups is not None
        is_together = len(splits) > 1 and split.size <= SMALL_BYTES
        size = split.size + sum(one.size for one in chosen)
        if is_part or is_together or size > MOST_BYTES or split.source != splits[0].source:
            break
        chosen.append(split)
    source = asked.reads_ahead(job.sources[chosen[0].source]) if chosen else None
    if source is None:
        return {}
    context = columns_read(job, chosen[0].source, reading_of(job, storage_options))
    return {
        (one.split.source, one.split.path): one for one in source.read_ahead(chosen, block_rows, context, KEPT_BYTES)
    }
