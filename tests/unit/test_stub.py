"""The typed stub against the binary: every name, argument and default, both ways, by mypy's own stubtest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_stub_and_binary_agree(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text("tidemill._native.__all__\n")  # PyO3 makes it; nobody imports `*`
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy.stubtest", "tidemill._native", "--concise", "--ignore-disjoint-bases"),
            *("--mypy-config-file", ROOT / "pyproject.toml", "--allowlist", allowed),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
