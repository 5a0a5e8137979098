"""An auth manager of Airflow that keeps one user from the XComs of every DAG. No role of the simple one does that."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

STRANGER = "one who may not see data"


class HalfOpen(SimpleAuthManager):
    """The simple auth manager, but `STRANGER` may read no XCom."""

    def is_authorized_dag(self, *, user: Any, access_entity: Any = None, **kwargs: Any) -> bool:
        """Refuse the XComs to `STRANGER`."""
        if access_entity == DagAccessEntity.XCOM and user.username == STRANGER:
            return False
        return bool(super().is_authorized_dag(user=user, access_entity=access_entity, **kwargs))
