"""Where Airflow, Spark, the Rust core and the store meet."""

from picture import Picture


def draw() -> Picture:
    """The picture."""
    p = Picture(860, 506, "Where Airflow, Spark, the Rust core and the store meet")
    p.box(16, 24, 160, 74, "Airflow\nstarts a run,\nretries it", "airflow")
    p.arrow([(176, 61), (252, 61)])
    p.text(214, 52, "starts", "middle", size=12, soft=True)
    p.box(254, 24, 270, 74, "Driver: tidemill run\nlists new files, writes the plan,\ncommits, publishes", "driver")

    p.box(16, 150, 508, 166, "", "spark")
    p.text(32, 174, "Spark", bold=True)
    p.text(78, 174, "(or the local engine, without Java)", size=13, soft=True)
    for x, head, below in (
        (32, "Scatter tasks", "read their files, apply\nstateless steps"),
        (318, "Apply tasks", "call your functions,\nwrite state and outputs"),
    ):
        p.box(x, 188, 190, 112, f"{head}\n{below}", "plain", top=True)
        p.box(x + 16, 262, 158, 28, "Rust core", "rust", size=13)
    p.arrow([(222, 240), (318, 240)], "spark")
    p.text(270, 232, "rows by key", "middle", size=12, soft=True)
    p.arrow([(389, 98), (389, 148)], "driver")
    p.text(381, 129, "splits and key ranges", "end", size=12, soft=True)

    p.box(16, 382, 828, 108, "", "store")
    p.text(720, 406, "Store", "end", bold=True)
    p.text(728, 406, "(S3 or a folder)", size=13, soft=True)
    p.box(32, 418, 190, 56, "Source folders\nCSV, JSON, Parquet", "plain")
    p.box(318, 418, 256, 56, "Repository\nplans, commits, state, output files", "plain", size=13)
    p.box(670, 418, 158, 56, "Sink folders\nfor other tools", "plain")
    p.arrow([(127, 418), (127, 302)], "store")
    p.text(135, 352, "new files", size=12, soft=True)
    p.arrow([(413, 302), (413, 418)], "store", both=True)
    p.text(421, 346, "state of the last version in,", size=12, soft=True)
    p.text(421, 362, "changes and outputs out", size=12, soft=True)
    p.line([(524, 48), (622, 48), (622, 400), (548, 400)], "driver")
    p.arrow([(548, 400), (548, 418)], "driver")
    p.text(630, 196, "plan and commit:\neach is one object,\ncreated only if\nits name is free", size=12, soft=True)
    p.arrow([(574, 446), (670, 446)], "driver")
    p.text(622, 439, "publish", "middle", size=12, soft=True)
    return p
