"""How a Spark session is set up where its user did not say: pure functions from what is set to what is added.

INVARIANT: a setting that the user made, wherever Spark would read it, is never changed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_ALWAYS = {
    "spark.app.name": "tidemill",
    "spark.sql.session.timeZone": "UTC",
    # Half the cost of every Python stage, where Spark has it (from 4.1); elsewhere nobody reads it.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"
_EXTRA_OPTIONS = "spark.driver.extraJavaOptions"
_JVM_VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*)")
_SHORT_RUNS = "-XX:TieredStopAtLevel=1"
_SMALL_HEAP = "-XX:+UseSerialGC"


@dataclass(frozen=True)
class Machine:
    """What the tuning of a local JVM depends on beside the user's settings."""

    java_version: int
    log_file: Path | None = None
    """The logging to use, where the user has none."""
    class_archive: Path | None = None
    """An archive that fits this Java and this Spark, if one was made."""
    socket_folder: Path | None = None
    """Where Python workers are met; Spark leaves its sockets lying there. None: where Spark likes."""


def added_settings(user: Mapping[str, str], environment: Mapping[str, str], machine: Machine) -> dict[str, str]:
    """The settings to add to the user's. A local master gets all of the tuning, a cluster only what is harmless."""
    settings = dict(_ALWAYS)
    if is_local(user):
        settings |= _LOCAL | {_DEFAULT_OPTIONS: " ".join(_java_options(user, environment, machine))}
        if machine.socket_folder is not None:
            settings["spark.python.unix.domain.socket.dir"] = str(machine.socket_folder)
    return {key: value for key, value in settings.items() if key not in user}


def added_environment(user: Mapping[str, str], environment: Mapping[str, str], python: str) -> dict[str, str]:
    """The variables to set while Spark starts: workers on this machine use this Python."""
    if not is_local(user):
        return {}
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LAUNCHER_OPTS": f"{_SHORT_RUNS} {_SMALL_HEAP}"}
    if "spark.pyspark.python" not in user:
        variables["PYSPARK_PYTHON"] = python
    return {name: value for name, value in variables.items() if name not in environment}


def is_local(user: Mapping[str, str]) -> bool:
    """Whether the session will run in this machine's own JVM."""
    return user.get("spark.master", "local").startswith("local")


def user_settings(
    conf: Mapping[str, str], environment: Mapping[str, str], defaults: str, submit_args: str
) -> dict[str, str]:
    """The settings of a user by Spark's precedence: `conf`, arguments for spark-submit, the text of a defaults file."""
    found = parsed_properties(defaults) | _parsed_arguments(submit_args)
    if "MASTER" in environment:
        found.setdefault("spark.master", environment["MASTER"])
    return found | {key: value for key, value in conf.items() if key.startswith("spark.")}


def parsed_properties(text: str) -> dict[str, str]:
    """The settings of a `spark-defaults.conf`: keys and values with a space, `=` or `:` between, `#` for comments."""
    lines = text.replace("\\\n", "").splitlines()
    matches = (_PROPERTY.fullmatch(line.rstrip()) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def properties_file(submit_args: str) -> str | None:
    """The file that arguments for spark-submit name in place of `spark-defaults.conf`."""
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
    """(option, value) of `--option value` and `--option=value`."""
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
    """Flags for short local runs, each left out where the user's own flags decide the same."""
    theirs = " ".join([user.get(_EXTRA_OPTIONS, ""), *(environment.get(name, "") for name in _JVM_VARIABLES)])
    options: list[str] = []
    if "Tiered" not in theirs:
        options.append(_SHORT_RUNS)
    if not re.search(r"-XX:\+Use\w*GC\b", theirs):
        options.append(_SMALL_HEAP)
    if machine.java_version >= 9:
        # What the JVM itself has to say goes to stderr: stdout is the caller's.
        options += ["-XX:+DisplayVMOutputToStderr", "-Xlog:disable", "-Xlog:all=warning:stderr"]
    if machine.log_file is not None and "log4j" not in theirs:
        options.append(f"-Dlog4j2.configurationFile={machine.log_file.as_uri()}")
    if machine.class_archive is not None and "SharedArchiveFile" not in theirs:
        options.append(f"-XX:SharedArchiveFile={shlex.quote(str(machine.class_archive))}")
    return options
