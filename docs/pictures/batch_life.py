"""The life of a batch: its steps, where a crash may fall, and what happens then."""

from itertools import pairwise

from picture import Picture

STEPS = (
    (16, 112, "New files\nin the source\nfolders", "plain"),
    (168, 122, "1  Plan\nfiles and time\nof the batch", "driver"),
    (330, 152, "2  Scatter, 3  Apply\nwrite state and\noutput files", "spark"),
    (522, 122, "4  Commit\none write: all\nor nothing", "driver"),
    (704, 140, "5  Publish\ncopy output files\ninto the sinks", "store"),
)
CRASHES = (
    ("A", 148, "Before the plan is written", "The next run plans as if this run had never started."),
    (
        "B",
        406,
        "After the plan, before the commit",
        "The next run finds the plan and reads the same files at the same batch time.\n"
        "No commit names the files that the dead run wrote, so no reader uses them.",
    ),
    (
        "C",
        583,
        "While the commit is written",
        "The object exists or it does not. If the answer is lost, the driver reads the object back.",
    ),
    (
        "D",
        674,
        "After the commit, before everything is published",
        "The batch stays committed. The next run publishes what is missing before it plans a batch.",
    ),
)
TOP, HEIGHT = 62, 84


def draw() -> Picture:
    """The picture."""
    p = Picture(860, 440, "The life of a batch, and what follows if a run dies at each point")
    p.text(16, 32, "A crash here changes nothing", bold=True)
    p.line([(16, 43), (640, 43)], "plain", width=3)
    p.text(654, 32, "The batch is real", bold=True, kind="store")
    p.line([(654, 43), (844, 43)], "store", width=3)
    for x, width, text, kind in STEPS:
        p.box(x, TOP, width, HEIGHT, text, kind)
    for before, after in pairwise(STEPS):
        p.arrow([(before[0] + before[1], TOP + HEIGHT / 2), (after[0], TOP + HEIGHT / 2)])
    for number, (letter, x, head, text) in enumerate(CRASHES):
        between = letter in "AD"
        end = TOP + HEIGHT / 2 if between else TOP + HEIGHT
        p.line([(x, end), (x, TOP + HEIGHT + 20)], "bad", dashed=True, width=1.3)
        p.cross(x, end)
        p.box(x - 12, TOP + HEIGHT + 20, 24, 24, letter, "bad")
        y = 224 + number * 52 + (17 if number > 1 else 0)
        p.box(16, y - 17, 24, 24, letter, "bad")
        p.text(54, y, head, bold=True)
        p.text(54, y + 19, text, size=13)
    return p
