"""The meaning of boto3's errors: a cause on which the store acts, or one of the five kinds with a clear message.

No I/O. INVARIANT: no message contains a secret. Of a refused login only the code is shown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from ..errors import InvalidInput, StoreUnavailable, TidemillError
from .contract import ObjectMissing, ObjectReplaced


class Cause(Enum):
    """Why a request failed, if the store acts on that."""

    MISSING = auto()
    TAKEN = auto()
    CONFLICT = auto()
    BEYOND_END = auto()
    BROKEN_OFF = auto()
    UNSUPPORTED = auto()
    OTHER = auto()


_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
    "ConfigParseError",
    "NoAuthTokenError",
    "TokenRetrievalError",
    "SSOError",
    "SSOTokenLoadError",
    "UnauthorizedSSOTokenError",
    "MetadataRetrievalError",
    "InvalidConfigError",
    "ConfigNotFound",
    "MissingDependencyException",
)
_BROKEN_OFF = ("ResponseStreamingError", "IncompleteReadError")
_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_LOGIN = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_REFUSED = (401, 403)
_UNSUPPORTED = (400, 405, 411, 413, 501)
"""Statuses of a request that the server refuses in this form, such as a copy of more than 5 GiB."""
_RETRYABLE = ("RequestTimeout", "RequestTimeTooSkewed", "SlowDown", "Throttling", "BadDigest", "IncompleteBody", "404")
"""Codes with a status of 400 to 499 for which a retry may still succeed."""


_BARE = ("", "400")
"""What boto3 makes of an answer without a body. No answer to a HEAD has one, so expired credentials look like that."""


def cause_of(error: Exception) -> Cause:
    """Return the cause in an error of boto3."""
    status, code = _answer(error)
    if code == "NoSuchBucket":
        return Cause.OTHER
    if type(error).__name__ in _BROKEN_OFF:
        return Cause.BROKEN_OFF
    if status == 404:
        return Cause.MISSING
    if status == 412:
        return Cause.TAKEN
    if status == 409:
        return Cause.CONFLICT
    if status in _UNSUPPORTED and code not in (*_LOGIN, *_REGION, *_RETRYABLE):
        return Cause.UNSUPPORTED
    return Cause.BEYOND_END if status == 416 else Cause.OTHER


@contextlib.contextmanager
def translate_errors(what: str, bucket: str, endpoint: str) -> Iterator[None]:
    """Turn errors of boto3 during `what` into one of the five kinds. Other errors pass unchanged."""
    try:
        yield
    except (TidemillError, ObjectMissing, ObjectReplaced):
        raise
    except Exception as error:
        found = _failure(what, bucket, endpoint, error)
        if found is None:
            raise
        raise found from error


def _failure(what: str, bucket: str, endpoint: str, error: Exception) -> TidemillError | None:
    status, code = _answer(error)
    if status is not None:
        return _answered(what, bucket, endpoint, error, status, code)
    if isinstance(error, RecursionError):  # boto3 asks for the bucket's region, is redirected, asks again, …
        return InvalidInput(
            f"{what}: {endpoint} redirects without naming a region; expected the address of an S3 server"
        )
    if not _is_of_boto(error):
        return None
    names = {kind.__name__ for kind in type(error).__mro__}
    if names.intersection(_CREDENTIALS):
        return StoreUnavailable(
            f"{what}: no usable AWS credentials ({type(error).__name__})",
            hint="give them in storage options, in the environment, in a profile or by the machine's role",
        )
    if names & {"ParamValidationError", "InvalidEndpointDiscoveryConfigurationError"} or isinstance(error, ValueError):
        return InvalidInput(f"{what}: {_one_line(error)}")
    return StoreUnavailable(
        f"{what}: no answer from {endpoint or 'S3'} ({type(error).__name__})",
        hint="check network and endpoint, then run again",
    )


def _answered(what: str, bucket: str, endpoint: str, error: Exception, status: int, code: str) -> TidemillError:
    if code == "NoSuchBucket":
        return InvalidInput(
            f"{what}: the bucket `{bucket}` does not exist at {endpoint}", hint="create the bucket, or correct its name"
        )
    if code in _REGION or status == 301:
        return InvalidInput(f"{what}: the bucket `{bucket}` is in another region ({code})", hint="set `region_name`")
    if code == "RequestTimeTooSkewed":
        return StoreUnavailable(
            f"{what}: {endpoint} refused the request, because the clock of this machine differs from its own by more "
            "than 15 minutes",
            hint="set the clock of this machine, for example by NTP",
        )
    if status in _REFUSED or code in _LOGIN:
        return StoreUnavailable(
            f"{what}: {endpoint} refused the credentials ({status} {code})",
            hint="check the credentials, and that they may list, read, write and delete there",
        )
    if status == 501:
        return InvalidInput(
            f"{what}: {endpoint} does not support this request ({status} {code})",
            hint="use a store with conditional create",
        )
    if status == 400 and code in _BARE:
        return StoreUnavailable(
            f"{what}: {endpoint} refused the request and gave no reason (400)",
            hint="run again; if that does not help, look whether the credentials have expired",
        )
    if 400 <= status < 500 and status not in (408, 409, 412, 425, 429) and code not in _RETRYABLE:
        return InvalidInput(f"{what}: {endpoint} refused the request ({status} {code}: {_message(error)})")
    return StoreUnavailable(f"{what}: {endpoint} failed ({status} {code})", hint="run again")


def _answer(error: Exception) -> tuple[int | None, str]:
    """Return status and code of the server's answer, if there was one."""
    response: Any = getattr(error, "response", None)
    if not isinstance(response, dict) or "ResponseMetadata" not in response:
        return None, ""
    status = response["ResponseMetadata"].get("HTTPStatusCode")
    return (int(status) if status is not None else None), str(response.get("Error", {}).get("Code", ""))


def _message(error: Exception) -> str:
    response: Any = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Message", "no message")).split("\n", 1)[0]


def _is_of_boto(error: Exception) -> bool:
    packages = {kind.__module__.split(".", 1)[0] for kind in type(error).__mro__}
    return bool(packages & {"botocore", "boto3", "s3transfer", "urllib3"}) or isinstance(error, OSError | ValueError)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
