"""DAG files as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Parse = Callable[..., Any]
BARE = """
from tidemill.airflow import tidemill_dags
tidemill_dags("pipelines/retail.py:p", root="s3://lake/tidemill", schedule="*/5 * * * *")
"""
