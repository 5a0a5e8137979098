"""A user who answers the question of a DAG run, for tests of DAGs that ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class answering:  # noqa: N801
    """Answers the question of a DAG run from another thread, as the API server does, and joins the thread."""

    def __init__(self, dag_id: str, answer: str | None, meanwhile: Callable[[], None]) -> None:
        self.arguments = (dag_id, answer, meanwhile)
        self.stop = threading.Event()
        self.asked: list[str] = []
        self.thread = threading.Thread(target=self._answer)

    def __enter__(self) -> answering:
        if self.arguments[1] is not None:
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        if self.arguments[1] is not None:
            self.thread.join()

    def _answer(self) -> None:
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
        from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        dag_id, answer, meanwhile = self.arguments
        while not self.stop.wait(0.2):
            with create_session() as session:
                query = select(TaskInstance).where(
                    TaskInstance.dag_id == dag_id, TaskInstance.state == "awaiting_input"
                )
                run_id = next((ti.run_id for ti in session.scalars(query)), None)
            if run_id is None:
                continue
            meanwhile()
            time.sleep(1)
            with create_session() as session:
                update_hitl_detail(
                    dag_id=dag_id, dag_run_id=run_id, task_id="approve", session=session,
                    update_hitl_detail_payload=UpdateHITLDetailPayload(chosen_options=[answer], params_input={}),
                    user=SimpleAuthManagerUser(username="ann", role="admin"),
                )  # fmt: skip
            return
