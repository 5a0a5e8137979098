"""What each customer has spent so far: the pipeline of the compose file and of the Helm values."""

import os

import tidemill as tm

LAKE = os.environ.get("ORDERS_LAKE", "s3://lake")

p = tm.Pipeline("orders")
orders = p.read(
    tm.Files(f"{LAKE}/orders/", format="csv", header=True, schema="customer string, amount double, ts timestamp")
).withWatermark("ts", "1 hour")
orders.groupBy("customer").agg(spent=tm.sum("amount"), orders=tm.count(), name="spend").write(
    tm.Parquet(f"{LAKE}/spend/")
)
