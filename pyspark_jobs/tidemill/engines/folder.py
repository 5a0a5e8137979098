"""The user's private cache folder, for files that starting Spark leaves on this machine. It can be deleted any time.

INVARIANT: every file in it was written by this user. If others can write to the folder, it is not used.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def private_folder() -> Path | None:
    """Return `$XDG_CACHE_HOME/tidemill/spark` (or `~/.cache/…`), created if needed; None if it is not private."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(root, "tidemill", "spark")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    is_ours = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o022
    return folder if is_ours and os.access(folder, os.W_OK) else None


def write_whole(path: Path, text: str, mode: int) -> None:
    """Write `path` whole or not at all. CRASH: a temporary file stays beside it, and nothing reads it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
