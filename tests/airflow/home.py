"""An Airflow of its own for each test process: home, database (SQLite) and DAG folder in a temporary folder.

Airflow reads its settings when it is first imported, by any test. So `tests/conftest.py` sets them before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def begin() -> None:
    """Make the home and set the settings in the environment."""
    home = Path(tempfile.mkdtemp(prefix="airflow-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT") or None))
    (home / "dags").mkdir()
    os.environ.update(settings_of(home))


def end() -> None:
    """Remove the home."""
    shutil.rmtree(os.environ["AIRFLOW_HOME"], ignore_errors=True)


def settings_of(home: Path) -> dict[str, str]:
    """The environment of an Airflow that lives in `home` and looks at no other folder."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
        "AIRFLOW__API__SECRET_KEY": "y" * 64,
    }
