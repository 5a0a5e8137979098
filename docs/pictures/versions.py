"""A chain of versions: each commit names the segments that make its version, and versions share segments."""

from picture import Picture

VERSIONS = ("base", "base d1", "base d1 d2", "base m3", "base m3 d4")
"""The segments of each version."""
SEGMENTS = {
    "base": (16, "base\nof batch 0", "store"),
    "d1": (176, "delta\nof batch 1", "spark"),
    "d2": (336, "delta\nof batch 2", "spark"),
    "m3": (496, "merged delta\nof batches 1–3", "spark"),
    "d4": (702, "delta\nof batch 4", "spark"),
}
WIDTH = {"base": 142, "m3": 188}


def middle(name: str) -> float:
    """The middle of a segment's box."""
    return SEGMENTS[name][0] + WIDTH.get(name, 142) / 2


def draw() -> Picture:
    """The picture."""
    p = Picture(860, 380, "Five versions of a state, made of shared segments")
    p.text(16, 24, "Commits: each names all segments of its version", bold=True)
    tops = []
    for number, names in enumerate(VERSIONS):
        x = 16 + number * 172
        p.box(x, 38, 140, 56, f"Version {number}\ncommit {number}", "driver")
        tops.append(x + 70)
        if number:
            p.arrow([(x, 66), (x - 32, 66)], "driver")
        for name in names.split():
            shift = (number - 2) * 7
            p.line([(tops[-1], 94), (middle(name) + shift, 242)], "store" if name == "base" else "spark", width=1.3)
            p.dot(middle(name) + shift, 242, "store" if name == "base" else "spark", 3)
    for name, (x, text, kind) in SEGMENTS.items():
        p.box(x, 244, WIDTH.get(name, 142), 56, text, kind)
    p.text(
        16,
        328,
        "Segments: immutable Parquet files. A batch writes one delta for each key range that it changed.",
        bold=True,
    )
    p.text(
        16,
        350,
        "A newer segment hides older rows of the same key. A tombstone hides a removed key. When small deltas\n"
        "pile up, a batch writes its own changes and theirs as one file. Older versions keep naming the old files.",
        size=13,
    )
    return p
