"""Make what the DAGs need: the bucket, one file of orders, and the repository. Repeating it changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import boto3

LAKE = os.environ.get("ORDERS_LAKE", "s3://lake")
PIPELINE = os.environ.get("ORDERS_PIPELINE", "/srv/pipelines/orders.py:p")
ORDERS = """customer,amount,ts
ann,12.50,2026-01-05T10:00:00Z
bob,3.00,2026-01-05T10:05:00Z
ann,7.50,2026-01-05T11:00:00Z
"""


def main() -> int:
    """Make what is missing, and return the exit status of `tidemill init`."""
    bucket, _, prefix = LAKE.removeprefix("s3://").partition("/")
    client = boto3.client("s3")
    if bucket not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=bucket)
    key = str(Path(prefix) / "orders/0001.csv")
    if not client.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents"):
        client.put_object(Bucket=bucket, Key=key, Body=ORDERS.encode())
    init = [sys.executable, "-m", "tidemill", "init", f"--root={LAKE}/tidemill", PIPELINE]
    return subprocess.run(init).returncode


if __name__ == "__main__":
    sys.exit(main())
