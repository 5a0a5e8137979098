"""Tuning a Spark session: pure functions from the user's settings to the settings that Tidemill adds.

INVARIANT: a setting that the user made, anywhere that Spark would read it, is never changed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from ..values import dataclass
from .java import VECTOR_MODULE

_ALWAYS = {
    "spark.app.name": "tidemill",
    "spark.sql.session.timeZone": "UTC",
    # Halves the cost of every Python stage from Spark 4.1 on. Earlier versions ignore it.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # What tasks exchange stays on this machine: compressing it takes longer than writing it. Checksums would only say
    # which machine damaged a block that cannot be decompressed.
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
}
_DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"
_EXTRA_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
_JVM_VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*)")
_SHORT_RUNS = "-XX:TieredStopAtLevel=1"
_SMALL_HEAP = "-XX:+UseSerialGC"


@dataclass(frozen=True)
class Machine:
    """The facts that the tuning of a local JVM depends on, beside the user's settings."""

    java_version: int
    log_file: Path | None = None
    """The logging configuration to use if the user has none."""
    class_archive: Path | None = None
    """The class-data archive for this Java and this Spark, if one was made."""
    socket_folder: Path | None = None
    """The folder for the sockets of Python workers, which Spark does not remove. None: Spark chooses."""


def added_settings(user: Mapping[str, str], environment: Mapping[str, str], machine: Machine) -> dict[str, str]:
    """Return the settings to add to the user's. A cluster gets only the harmless ones."""
    settings = dict(_ALWAYS)
    if is_local(user):
        settings |= _LOCAL | {_DEFAULT_OPTIONS: " ".join(_java_options(user, environment, machine))}
        if machine.socket_folder is not None:
            settings["spark.python.unix.domain.socket.dir"] = str(machine.socket_folder)
    return {key: value for key, value in settings.items() if key not in user}


def added_environment(user: Mapping[str, str], environment: Mapping[str, str], python: str) -> dict[str, str]:
    """Return the variables to set while Spark starts, so that workers on this machine use this Python."""
    chosen = chosen_python(user)
    if not is_local(user):
        return chosen
    variables = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": f"{_SHORT_RUNS} {_SMALL_HEAP}",
        "PYSPARK_PYTHON": python,
    }
    return {name: value for name, value in variables.items() if name not in environment} | chosen


def chosen_python(user: Mapping[str, str]) -> dict[str, str]:
    """Return the variable for the user's `spark.pyspark.python`, which PySpark itself reads only in spark-submit.

    The setting takes precedence over the variable, as it does there.
    """
    return {"PYSPARK_PYTHON": user[_PYTHON]} if _PYTHON in user else {}


def is_local(user: Mapping[str, str]) -> bool:
    """Whether the session will run in this machine's own JVM."""
    return user.get("spark.master", "local").startswith("local")


def wants_vector(user: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether Spark keeps its request for the incubator module `jdk.incubator.vector`.

    A cluster does, and so does a user whose own Java options name the module, for vectorized linear algebra in MLlib.
    """
    return not is_local(user) or VECTOR_MODULE in _user_java_options(user, environment)


def user_settings(
    conf: Mapping[str, str], environment: Mapping[str, str], defaults: str, submit_args: str
) -> dict[str, str]:
    """Return the user's settings by Spark's precedence: `conf`, arguments of spark-submit, text of a defaults file."""
    found = parsed_properties(defaults) | _parsed_arguments(submit_args)
    if "MASTER" in environment:
        found.setdefault("spark.master", environment["MASTER"])
    return found | {key: value for key, value in conf.items() if key.startswith("spark.")}


def parsed_properties(text: str) -> dict[str, str]:
    """Parse a `spark-defaults.conf`: a space, `=` or `:` separates key and value, `#` starts a comment."""
    lines = text.replace("\\\n", "").splitlines()
    matches = (_PROPERTY.fullmatch(line.rstrip()) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def properties_file(submit_args: str) -> str | None:
    """Return the file that arguments of spark-submit name in place of `spark-defaults.conf`."""
    return dict(_options(submit_args)).get("--properties-file")


_OPTION_KEYS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-java-options": _EXTRA_OPTIONS,
    "--driver-memory": "spark.driver.memory",
}


def _parsed_arguments(submit_args: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for option, value in _options(submit_args):
        if option in ("--conf", "-c"):
            key, _, setting = value.partition("=")
            found[key.strip()] = setting.strip()
        elif option in _OPTION_KEYS:
            found[_OPTION_KEYS[option]] = value
    return found


def _options(submit_args: str) -> list[tuple[str, str]]:
    """Return (option, value) of `--option value` and `--option=value`."""
    words = shlex.split(submit_args)
    found: list[tuple[str, str]] = []
    for word, following in pairwise([*words, ""]):
        if word.startswith("--") and "=" in word:
            option, _, value = word.partition("=")
            found.append((option, value))
        elif word.startswith("-"):
            found.append((word, following))
    return found


def _java_options(user: Mapping[str, str], environment: Mapping[str, str], machine: Machine) -> list[str]:
    """Return JVM flags for short local runs. A flag is omitted if the user's own flags decide the same thing."""
    theirs = _user_java_options(user, environment)
    options: list[str] = []
    if "Tiered" not in theirs:
        options.append(_SHORT_RUNS)
    if not re.search(r"-XX:\+Use\w*GC\b", theirs):
        options.append(_SMALL_HEAP)
    if machine.java_version >= 9:
        # The JVM's own messages go to stderr, because stdout belongs to the caller.
        options += ["-XX:+DisplayVMOutputToStderr", "-Xlog:disable", "-Xlog:all=warning:stderr"]
    if machine.log_file is not None and "log4j" not in theirs:
        options.append(f"-Dlog4j2.configurationFile={machine.log_file.as_uri()}")
    if machine.class_archive is not None and "SharedArchiveFile" not in theirs:
        options.append(f"-XX:SharedArchiveFile={shlex.quote(str(machine.class_archive))}")
    return options


def _user_java_options(user: Mapping[str, str], environment: Mapping[str, str]) -> str:
    return " ".join([user.get(_EXTRA_OPTIONS, ""), *(environment.get(name, "") for name in _JVM_VARIABLES)])
