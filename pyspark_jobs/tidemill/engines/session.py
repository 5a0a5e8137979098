"""Starts Spark if the process has none yet: tuned for short local runs, with the user's settings before ours.

`tuning` chooses the settings. INVARIANT: an existing session or context is used as it is.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, TidemillError
from ..store.full import no_temporary_file
from . import archive, java, tuning
from .masters import check_connect, check_master

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOG_FILE = Path(__file__).with_name("log4j2.properties")
_LONGEST_FOLDER = 40
"""A socket's path has at most 107 bytes, of which Spark needs about 60 below this folder."""
_LOG_NAMES = tuple(f"log4j2.{ending}" for ending in ("properties", "xml", "yaml", "yml", "json", "jsn"))


def start(conf: Mapping[str, str]) -> SparkSession:
    """Return the Spark session of this process, or start one: local with all cores unless `spark.master` differs.

    `conf` holds the user's `spark.…` settings. They, `spark-defaults.conf` and the environment take precedence over
    Tidemill's. With `spark.remote` the session is one of Spark Connect. `InvalidInput` is raised without pyspark,
    without a supported Java, or if Spark does not start. The session ends with the process.
    """
    own = _checked(conf)
    if wants_connect(own):
        check_connect(own.get("spark.remote", os.environ.get("SPARK_REMOTE", "")))
    else:
        start_context(own)
    from pyspark.sql import SparkSession

    with _clear_errors():
        session: SparkSession = SparkSession.builder.config(map=dict(own)).getOrCreate()
    return session


def start_context(conf: Mapping[str, str]) -> SparkContext:
    """Like `start`, without Spark SQL. It takes a third of the time, and is all that the RDD engine needs."""
    own = _checked(conf)
    from pyspark import SparkConf, SparkContext

    active: SparkContext | None = SparkContext._active_spark_context
    if active is not None:
        return active
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM and read every setting
        with _clear_errors():
            SparkContext._ensure_initialized()
            user = dict(SparkConf().getAll()) | own
            check_master(user.get("spark.master", ""))
            with _environment(tuning.chosen_python(user)):
                return _context(user | tuning.added_settings(user, os.environ, tuning.Machine(0)))
    runtime = java.find_java(os.environ, pyspark_version())
    user = _user_settings(own)
    check_master(user.get("spark.master", ""))
    machine = tuning.Machine(runtime.version, _log_file(), archive.existing(runtime), _socket_folder())
    settings = own | tuning.added_settings(user, os.environ, machine)
    variables = tuning.added_environment(user, os.environ, sys.executable)
    home = java.home_for_spark if tuning.wants_vector(user, os.environ) else java.home_without_vector
    with _environment(variables | {"JAVA_HOME": str(home(runtime))}), _clear_errors():
        return _context(settings)


def wants_connect(conf: Mapping[str, str]) -> bool:
    """Whether a new session would be one of Spark Connect."""
    if "spark.remote" in conf or conf.get("spark.api.mode", os.environ.get("SPARK_API_MODE")) == "connect":
        return True
    return any(name in os.environ for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"))


def pyspark_version() -> str:
    """Return the version of the installed pyspark."""
    from pyspark import __version__

    return str(__version__)


def _checked(conf: Mapping[str, str]) -> dict[str, str]:
    try:
        import pyspark  # noqa: F401 - asked for by its absence
    except ImportError as error:
        raise InvalidInput(
            f"start Spark: pyspark cannot be imported ({error})",
            hint="pip install 'tidemill[spark]', or run with engine=\"local\"",
        ) from error
    return {key: str(value) for key, value in conf.items() if key.startswith("spark.")}


def _context(settings: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    with _started_whole():
        return SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))


@contextmanager
def _started_whole() -> Iterator[None]:
    """Delay an interrupt until Spark has started. A second interrupt takes effect at once.

    PySpark makes the JVM ignore SIGINT. If PySpark is interrupted before it knows the JVM's port, nothing ends the
    JVM: it would stay and keep the terminal's output open.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, asked = signal.getsignal(signal.SIGINT), []
    if before in (None, signal.SIG_IGN):
        yield
        return

    def wait(number: int, _frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is wait:  # PySpark installs a handler of its own afterwards
            signal.signal(signal.SIGINT, before)
        if asked:
            signal.raise_signal(signal.SIGINT)


def _user_settings(own: Mapping[str, str]) -> dict[str, str]:
    submit_args = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    file = tuning.properties_file(submit_args) or _conf_folder() / "spark-defaults.conf"
    try:
        defaults = Path(file).read_text(encoding="utf-8")
    except OSError:
        defaults = ""
    return tuning.user_settings(own, os.environ, defaults, submit_args)


def _conf_folder() -> Path:
    if os.environ.get("SPARK_CONF_DIR"):
        return Path(os.environ["SPARK_CONF_DIR"])
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "conf"


def _log_file() -> Path | None:
    """Return Tidemill's logging configuration, unless the user's configuration folder has one."""
    folder = _conf_folder()
    return None if any((folder / name).exists() for name in _LOG_NAMES) else _LOG_FILE


def _socket_folder() -> Path | None:
    """Return a folder that is removed when this process ends, or None if a socket's path in it would be too long."""
    if len(tempfile.gettempdir()) > _LONGEST_FOLDER:
        return None
    try:
        folder = tempfile.mkdtemp(prefix="tidemill-")
    except OSError as error:
        raise no_temporary_file(error) from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set the variables while Spark starts, so that its processes inherit them and others do not."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"start Spark: {_reason(error)}",
            hint="check the `spark.…` settings; Spark's own messages are above",
        ) from error


def _reason(error: Any) -> str:
    """Return the first line of the error of Java or pyspark."""
    java_error = getattr(error, "java_exception", None)
    text = str(java_error.toString() if java_error is not None else error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
