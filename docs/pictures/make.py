"""Draw the pictures: `make pictures`, or `python docs/pictures/make.py`.

`report/` has the makers of the pictures of `tidemill report`, which need a Chromium; without one they stay as they are.
Each `<name>.py` beside this file has a function `draw()` that returns a `Picture`, and becomes `<name>.svg` (`_` in the
name of a source is `-` in that of its picture). The checksum of the sources is in the picture.
"""

from __future__ import annotations

import hashlib
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
TOOLS = ("make.py", "picture.py")


def sources() -> list[Path]:
    """The sources of all pictures."""
    return sorted(path for path in HERE.glob("*.py") if path.name not in TOOLS)


def picture_of(source: Path) -> Path:
    """Where the picture of a source is."""
    return source.with_name(f"{source.stem.replace('_', '-')}.svg")


def checksum(source: Path) -> str:
    """SHA-256 of the source and of `picture.py`."""
    return hashlib.sha256(source.read_bytes() + (HERE / "picture.py").read_bytes()).hexdigest()


def drawn(source: Path) -> str:
    """The picture that a source describes."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    return str(runpy.run_path(str(source))["draw"]().svg(checksum(source)))


if __name__ == "__main__":
    for path in sources():
        picture_of(path).write_text(drawn(path), "utf-8")
    runpy.run_path(str(HERE / "report" / "photograph.py"), run_name="__main__")
