"""`python -m tidemill` runs the command line, as `tidemill` does."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
