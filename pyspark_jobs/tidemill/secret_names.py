"""Which names look like those of secrets, and which URLs have secrets in them.

Their values stay out of arguments, databases, records and messages. INVARIANT: every URL that a user gives for a place
or an endpoint passes `check_no_secrets` before anything records or shows it.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from .errors import InvalidInput

_SECRET_NAMES = (
    *("secret", "password", "passwd", "passphrase", "token", "access_key", "accesskey", "api_key", "apikey"),
    *("private_key", "privatekey", "account_key", "credential", "authorization", "connection_string", "signature"),
)
_NO_SECRETS = ("spark.kubernetes.",)
"""Settings of Spark that name a secret of the platform and do not contain it."""
_NO_SECRET_ENDS = (".provider", ".enabled", ".providers")


def is_secret(name: str) -> bool:
    """Return whether a name looks like that of a secret.

    >>> is_secret("AWS_SECRET_ACCESS_KEY"), is_secret("endpoint_url")
    (True, False)
    """
    return any(word in name.lower().replace("-", "_").replace(".", "_") for word in _SECRET_NAMES)


def is_secret_setting(name: str) -> bool:
    """Return whether a setting of Spark looks like a secret, and not like a reference to one or a switch.

    >>> is_secret_setting("spark.hadoop.fs.s3a.secret.key")
    True
    >>> is_secret_setting("spark.kubernetes.driver.secretKeyRef.PASSWORD")
    False
    """
    return is_secret(name) and not name.startswith(_NO_SECRETS) and not name.endswith(_NO_SECRET_ENDS)


_URL = re.compile(r"\s*((?:jdbc:)?[a-z][a-z0-9+.-]+):(/+)(.*)", re.IGNORECASE | re.DOTALL)
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_SHORT_NAMES = ("auth", "key", "pass", "pwd", "sas", "sig")
"""Names of parameters that are secrets if a URL has them, such as `sig` of Azure."""


def has_secret(text: str) -> bool:
    """Return whether a text is a URL with credentials before an `@`, or with a parameter that looks like a secret.

    Paths of files may contain any of these characters, and templates of Airflow too.

    >>> [has_secret(url) for url in ("s3://me:pw@lake/in", "https://lake/a?X-Amz-Signature=0f", "sc://host/;token=0f")]
    [True, True, True]
    >>> [has_secret(url) for url in ("s3://lake/in", "https://lake:9000", "/data/me@home?token=1", "file:///a@b")]
    [False, False, False, False]
    """
    found = _URL.match(_TEMPLATE.sub("x", text))
    if found is None:
        return False
    scheme, slashes, rest = found[1].lower(), found[2], found[3]
    place, *parameters = re.split("[?#;&]", rest)
    authority = place.partition("/")[0]
    if scheme == "file":
        return len(slashes) == 2 and "@" in authority
    # A password may contain any character that ends a host name elsewhere, so an `@` counts wherever a host name ends
    # in something else than a port.
    if "@" in authority or ("@" in rest and re.search(r":(?![0-9]*$)", re.sub(r"\[.*?\]", "", authority))):
        return True
    return any(map(_is_secret_parameter, parameters))


def holds_secret(name: str, value: object) -> bool:
    """Return whether a named value is a secret: by its name, or as a URL with a secret in it.

    >>> holds_secret("AWS_SECRET_ACCESS_KEY", "0f"), holds_secret("proxy", "http://me:pw@host"), holds_secret("n", 4)
    (True, True, False)
    """
    return is_secret(name) or has_secret(str(value))


def check_no_secrets(url: str, what: str) -> None:
    """Raise `InvalidInput` if a URL has a secret in it. The error names `what`, and does not repeat the URL."""
    if has_secret(url):
        raise InvalidInput(
            f"{what}: the URL contains credentials before an `@`, or a parameter that looks like a secret",
            hint="remove them, because records and messages show URLs; use the usual AWS credential chain or "
            "storage_options",
        )


def _is_secret_parameter(text: str) -> bool:
    name, equals, _ = text.partition("=")
    name = unquote(name).strip().lower()
    return bool(equals) and "/" not in name and (is_secret(name) or name in _SHORT_NAMES)
