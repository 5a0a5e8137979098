"""boto3 clients for S3: options, endpoint, credentials, retries.

Stores of a process that were opened with the same options share their clients. INVARIANT: `once` never sends a request
twice. boto3 keeps secrets, and no message contains them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from .. import spelling
from ..errors import InvalidInput
from ..secret_names import check_no_secrets
from ..values import dataclass
from .s3_clock import ServerClock
from .s3_errors import translate_errors

_SESSION = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "profile_name", "region_name")
_CLIENT = ("endpoint_url", "verify")
_CONFIG = ("addressing_style", "connect_timeout", "read_timeout", "max_attempts", "max_pool_connections")
OPTIONS = _SESSION + _CLIENT + _CONFIG
"""The keys that `storage_options` may have for S3. Timeouts are in seconds."""

_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_NUMBERS = _CONFIG[1:]
_STYLES = ("auto", "path", "virtual")


@dataclass(frozen=True)
class Clients:
    """`main` retries what is safe to retry; `once` sends each request once. Both are safe for threads.

    They hold connections, so a forked process must make its own.
    """

    main: Any = field(repr=False)
    once: Any = field(repr=False)
    endpoint: str
    process: int
    clock: ServerClock = field(default_factory=ServerClock, repr=False)

    def __post_init__(self) -> None:
        for client in (self.main, self.once):
            self.clock.watch(client)


_made: dict[tuple[Any, ...], Clients] = {}
_making = threading.Lock()


def clients(options: Mapping[str, Any]) -> Clients:
    """Return the clients for these options and AWS's current environment, made once a process.

    Raises `InvalidInput` for an unknown or invalid option, and `StoreUnavailable` for unreadable credentials.
    """
    _check(options)
    environment = sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    key = (os.getpid(), *sorted((name, str(value)) for name, value in options.items()), *environment)
    with _making:
        if key not in _made:
            _made[key] = _make(options)
        return _made[key]


def _check(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in OPTIONS:
            nearest = spelling.nearest(name, OPTIONS)
            raise InvalidInput(
                f"unknown storage option `{name}`; expected one of `{'`, `'.join(OPTIONS)}`",
                hint=f"did you mean `{nearest}`?" if nearest else None,
            )
        if name in _NUMBERS and not _is_positive(value):
            raise InvalidInput(f"storage option `{name}` is {value!r}; expected a number above 0")
    if ("aws_access_key_id" in options) != ("aws_secret_access_key" in options):
        raise InvalidInput(
            "storage options `aws_access_key_id` and `aws_secret_access_key` must be given together; found only one"
        )
    _check_endpoint(options.get("endpoint_url"), "storage option `endpoint_url`")
    for name in _ENDPOINTS:
        _check_endpoint(os.environ.get(name), f"the variable `{name}`")
    style = options.get("addressing_style", "auto")
    if style not in _STYLES:
        raise InvalidInput(f"storage option `addressing_style` is {style!r}; expected one of `{'`, `'.join(_STYLES)}`")


def _check_endpoint(url: Any, what: str) -> None:
    """Raise `InvalidInput` for an address that is more than one, because messages show it."""
    check_no_secrets(str(url or ""), what)
    if not {"@", "?", "#"}.isdisjoint(str(url or "")):
        raise InvalidInput(f"{what}: expected the address of an S3 server, such as `https://host:9000`")


def _is_positive(value: Any) -> bool:
    try:
        return float(value) > 0
    except (TypeError, ValueError):
        return False


def _make(options: Mapping[str, Any]) -> Clients:
    import boto3

    with translate_errors("open S3", "", str(options.get("endpoint_url", ""))):
        session = boto3.Session(**{name: options[name] for name in _SESSION if name in options})
        attempts = int(float(options.get("max_attempts", 5)))
        main, once = (_client(session, options, total) for total in (attempts, 1))
        _check_endpoint(main.meta.endpoint_url, "the `endpoint_url` of AWS's configuration")
        return Clients(main, once, main.meta.endpoint_url, os.getpid())


def _client(session: Any, options: Mapping[str, Any], attempts: int) -> Any:
    from botocore.config import Config

    # On AWS a bucket may be part of the host name. Other endpoints seldom have such host names.
    own = any(os.environ.get(name) for name in _ENDPOINTS) or "endpoint_url" in options
    config = Config(
        s3={"addressing_style": options.get("addressing_style", "path" if own else "auto")},
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=float(options.get("connect_timeout", 10)),
        read_timeout=float(options.get("read_timeout", 60)),
        max_pool_connections=int(float(options.get("max_pool_connections", 32))),
        # New defaults send checksums in trailers, which other S3 servers refuse. Records have checksums of their own.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return session.client("s3", config=config, **{name: options[name] for name in _CLIENT if name in options})
