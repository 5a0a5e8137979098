"""The DAGs of the pipeline `orders`: it runs on the Spark cluster if much waits, and in the task if little does."""

import os

from tidemill.airflow import Launch, Maintain, tidemill_dags

LAKE = os.environ.get("ORDERS_LAKE", "s3://lake")

tidemill_dags(
    "/srv/pipelines/orders.py:p",
    root=f"{LAKE}/tidemill",
    schedule="*/5 * * * *",
    watch=True,
    maintain=Maintain(keep="90 days"),
    launch=Launch(conf={"spark.master": os.environ.get("SPARK_MASTER", "spark://spark-master:7077")}),
    dag_args={"default_args": {"pool": "orders"}},
)
