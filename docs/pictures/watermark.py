"""Event time over three batches: the watermark, late rows, the data pass and the due pass."""

from picture import Picture

LEFT, WIDTH = 150, 400
BATCHES = (  # watermark before, after; rows; what happens
    (None, 2, (2, 7, 12), "Data pass: all rows are processed.\nDue pass: the watermark becomes 10:02."),
    (
        2,
        11,
        (1, 9, 21),
        "Data pass: 10:01 is late.\nDue pass: the watermark becomes 10:11,\nthe timeout at 10:08 fires.",
    ),
    (11, 24, (10, 18, 34), "Data pass: 10:10 is late.\nDue pass: the watermark becomes 10:24."),
)
TIMEOUT = 8


def at(minute: float) -> float:
    """Where a minute after 10:00 is on the axis."""
    return LEFT + minute / 36 * WIDTH


def draw() -> Picture:
    """The picture."""
    p = Picture(860, 470, "Event time over three batches with a watermark delay of ten minutes")
    p.text(16, 28, "Event time", bold=True)
    for minute in range(0, 40, 10):
        p.text(at(minute), 28, f"10:{minute:02d}", "middle", size=13, soft=True)
        p.line([(at(minute), 36), (at(minute), 388)], "plain", width=0.5)
    for number, (before, after, rows, what) in enumerate(BATCHES):
        y = 48 + number * 116
        p.box(16, y, 112, 92, f"Batch {number}\n3 rows", "driver")
        p.line([(LEFT - 10, y + 92), (LEFT + WIDTH + 10, y + 92)], width=1)
        if before is not None:
            p.line([(at(before), y), (at(before), y + 92)], "bad", width=2)
            p.text(at(before) + 5, y + 12, f"10:{before:02d}", size=12, kind="bad")
        p.line([(at(after), y), (at(after), y + 92)], "store", dashed=True, width=2)
        p.text(at(after) + 5, y + 86, f"10:{after:02d}", size=12, kind="store")
        for minute in rows:
            late = before is not None and minute <= before
            p.dot(at(minute), y + 48, "bad" if late else "airflow", 7)
            p.text(at(minute) + 1, y + 34, f":{minute:02d}", "middle", size=12)
        if number < 2:
            p.box(at(TIMEOUT) - 5, y + 60, 10, 10, "", "spark")
        p.text(LEFT + WIDTH + 26, y + 22, what, size=13)
    y = 418
    p.dot(24, y, "airflow", 7)
    p.text(40, y + 5, "row", size=13)
    p.dot(94, y, "bad", 7)
    p.text(110, y + 5, "late row: at or before the watermark of the last commit", size=13)
    p.box(492, y - 5, 10, 10, "", "spark")
    p.text(512, y + 5, "timeout at 10:08, set in batch 0", size=13)
    y = 448
    p.line([(16, y), (34, y)], "bad", width=2)
    p.text(42, y + 5, "watermark before the batch: functions see it", size=13)
    p.line([(360, y), (378, y)], "store", dashed=True, width=2)
    p.text(386, y + 5, "watermark after it: greatest event time less 10 minutes", size=13)
    return p
