"""The routes of the page in Airflow: the script, all pipelines, and the report of one.

INVARIANT: each route asks Airflow whether the user may see plugins; the data of a pipeline is also refused to a user
who may not read its DAG and XComs. Nothing here writes.
"""

# FastAPI reads the annotations of routes when they are made, so they must not be postponed.

from collections.abc import Iterable
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Query, Response

from .bundle import bundle
from .overview import PipelineOverview, main_dag, pipelines
from .reading import ReportUnavailable, report_of

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
MayRead = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))


def made() -> FastAPI:
    """Return the application with all routes."""
    app = FastAPI(
        title="Tidemill", docs_url=None, redoc_url=None, openapi_url=None,
        dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
    )  # fmt: skip
    app.get("/page.js")(_script)
    app.get("/pipelines")(_all)
    app.get("/pipelines/{dag_id}/report", dependencies=[MayRead])(_report)
    return app


def _script() -> Response:
    return Response(bundle(), media_type="text/javascript; charset=utf-8", headers=_HEADERS)


def _all(session: SessionDep, user: GetUserDep, response: Response) -> dict[str, Any]:
    response.headers.update(_HEADERS)
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    found = pipelines(session, readable, lambda dag_id: _may_read(dag_id, user))
    return {"pipelines": [one.as_dict() for one in found]}


def _report(
    dag_id: str,
    session: SessionDep,
    user: GetUserDep,
    response: Response,
    branch: Annotated[str | None, Query(max_length=100)] = None,
    operator: Annotated[str | None, Query(max_length=100)] = None,
    key: Annotated[str | None, Query(max_length=2000)] = None,
) -> dict[str, Any]:
    response.headers.update(_HEADERS)
    main = main_dag(dag_id)
    if not _may_read(main, user):
        raise HTTPException(403, "Forbidden")
    found = _named(pipelines(session, {main}, lambda _: True), dag_id)
    if found.repository is None:
        raise HTTPException(404, f"no run of `{found.dag_id}` has said yet where its repository is")
    try:
        return report_of(found.repository, branch or found.branch, operator, key)
    except ReportUnavailable as error:
        raise HTTPException(error.status, str(error)) from error


def _may_read(dag_id: str, user: BaseUser) -> bool:
    """Whether a user may read what the tasks of a DAG returned."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.XCOM, details=details, user=user
    )


def _named(found: Iterable[PipelineOverview], dag_id: str) -> PipelineOverview:
    for one in found:
        return one
    raise HTTPException(404, f"`{dag_id}` is not a DAG of Tidemill")
