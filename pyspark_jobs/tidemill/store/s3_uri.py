"""Bucket and prefix in `s3://` URIs. Only names, so that boto3 is not needed."""

from __future__ import annotations

from ..errors import InvalidInput


def parse_s3_uri(rest: str) -> tuple[str, str]:
    """Return bucket and prefix of `bucket/prefix`, without slashes around the prefix. Raises `InvalidInput`."""
    bucket, _, prefix = rest.partition("/")
    if not bucket or "@" in rest or "?" in rest:
        raise InvalidInput("open an S3 store: expected `s3://bucket/prefix`, credentials in options or environment")
    folder = prefix.strip("/")
    if folder and not {"", ".", ".."}.isdisjoint(folder.split("/")):
        raise InvalidInput(
            f"open the S3 store `s3://{rest}`: found `//`, `.` or `..` in the prefix, expected names only"
        )
    return bucket, folder


def uri_of(bucket: str, prefix: str) -> str:
    """Return `s3://bucket/prefix`."""
    return f"s3://{bucket}/{prefix}".rstrip("/")
