"""A repository as a tree of folders."""

from picture import Picture

ROWS = (  # depth, name, kind of text, meaning
    (0, "lake/tidemill/", None, "the root"),
    (1, "retail/", None, "the repository of the pipeline retail"),
    (2, "refs/", "driver", "what init created: the pipeline's identity and operators"),
    (3, "0000000000.json", None, ""),
    (2, "branches/main/", "driver", "the log of the branch main"),
    (3, "plans/0000000000.json", None, "the files and the time of batch 0"),
    (3, "commits/0000000000.json", None, "made version 0; names every file of that version"),
    (3, "head.json", None, "a hint to the newest commit"),
    (2, "state/spend/…/main/", "store", "segments of the operator spend: Parquet"),
    (2, "state/by-country/…/main/", "store", "segments of the operator by-country"),
    (2, "state/_ledger/files/main/", "store", "which input files have been read"),
    (2, "output/spend/main/", "spark", "committed rows of the sink spend"),
    (2, "output/by-country/main/", "spark", "committed rows of the sink by-country"),
    (2, "quarantine/main/", "bad", "quarantined rows with file, line and reason"),
)
STEP, FIRST, INDENT = 29, 38, 26


def draw() -> Picture:
    """The picture."""
    p = Picture(860, FIRST + STEP * len(ROWS), "A repository as a tree of folders")
    joined: dict[int, float] = {}
    for number, (depth, name, kind, meaning) in enumerate(ROWS):
        x, y = 16 + depth * INDENT, FIRST + number * STEP
        if depth:
            p.line([(x - 16, joined[depth]), (x - 16, y - 5), (x - 4, y - 5)], width=1)
            joined[depth] = y - 5
        joined[depth + 1] = y + 8
        p.text(x, y, name, mono=True, bold=name.endswith("/"), kind=kind)
        p.text(392, y, meaning, size=13)
    return p
