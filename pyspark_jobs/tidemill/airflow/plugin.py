"""Airflow's plugin: a page for all pipelines, a tab on each of their DAGs, and a summary on the dashboard.

Every process of Airflow imports this module, so it is light: the routes are made when the API server gets the first
request for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from .page import PAGE_NAME, SUMMARY_NAME, TAB_NAME

PREFIX = "/tidemill"
BUNDLE = f"{PREFIX.removeprefix('/')}/page.js"
"""Relative to the address of Airflow's pages, which may be behind a prefix."""

Scope = MutableMapping[str, Any]


class LateApp:
    """The routes of the page, as an ASGI application that is made when it is first called."""

    def __init__(self) -> None:
        self._app: Callable[..., Awaitable[None]] | None = None

    async def __call__(self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Answer a request."""
        if self._app is None:
            from .page.routes import made

            self._app = made()
        await self._app(scope, receive, send)


class TidemillPlugin(AirflowPlugin):
    """The page of Tidemill in Airflow. Every route asks Airflow whether the user may see it."""

    name = "tidemill"
    fastapi_apps = [{"app": LateApp(), "url_prefix": PREFIX, "name": "Tidemill"}]  # noqa: RUF012
    react_apps = [  # noqa: RUF012
        {"name": PAGE_NAME, "bundle_url": BUNDLE, "destination": "nav", "url_route": "tidemill", "category": "browse"},
        {"name": TAB_NAME, "bundle_url": BUNDLE, "destination": "dag", "url_route": "tidemill-pipeline"},
        {"name": SUMMARY_NAME, "bundle_url": BUNDLE, "destination": "dashboard", "url_route": "tidemill-summary"},
    ]
