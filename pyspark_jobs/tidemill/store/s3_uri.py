"""What stands behind `s3://`: bucket and prefix. Names only, so it does without boto3."""

from __future__ import annotations

from ..errors import InvalidInput


def parse(rest: str) -> tuple[str, str]:
    """Bucket and prefix of `bucket/prefix`, the prefix without slashes at its ends; `InvalidInput` for another form."""
    bucket, _, prefix = rest.partition("/")
    if not bucket or "@" in rest or "?" in rest:
        raise InvalidInput("open an S3 store: expected `s3://bucket/prefix`, credentials in options or environment")
    return bucket, prefix.strip("/")


def uri_of(bucket: str, prefix: str) -> str:
    """`s3://bucket/prefix`."""
    return f"s3://{bucket}/{prefix}".rstrip("/")
