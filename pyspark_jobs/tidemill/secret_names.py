"""Which names look like those of secrets, so that their values stay out of arguments, databases and messages."""

from __future__ import annotations

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
