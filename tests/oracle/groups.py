"""One program in three places: each row is a command for the `GroupState` of its key, and each command has a reply.

Here for Tidemill and PySpark; for Spark's Scala rules it is `Groups.java`. A row's `say` is commands by commas: `u5`
updates, `r` removes, `d500` and `t7000` (`a7000`: with "3 seconds" more) arm, `n` updates with nothing, `g x w p` tell
the state, whether it exists, the watermark and the batch time, `o j` what only PySpark has. A key `name:program` runs
the program when it times out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SCHEMA = "k string, ts timestamp, say string"
SOURCE = Path(__file__).parent / "Groups.java"


def run(key: Any, says: Iterable[str], state: Any, *, in_pandas: bool = False) -> Iterator[str]:
    """Return the replies to the commands of a call. In PySpark a state is a tuple, without additional durations."""
    name = "null" if key is None else key
    yield f"{name} timedOut={_text(state.hasTimedOut)} exists={_text(state.exists)}"
    programs = list(says)
    if state.hasTimedOut:
        programs = [name.split(":")[1]] if ":" in name else []
    for program in programs:
        for command in filter(None, program.split(",")):
            try:
                found = _one(command[0], command[1:], state, in_pandas)
            except (RuntimeError, ValueError, TypeError) as error:
                found = f"refused {_kind(error)}" if in_pandas else "refused"
            yield f"{name} {command} {found}"


def _one(verb: str, number: str, state: Any, in_pandas: bool) -> str:
    match verb:
        case "u":
            state.update((int(number),) if in_pandas else int(number))
        case "r":
            state.remove()
        case "n":
            state.update(None)
        case "d":
            state.setTimeoutDuration(int(number))
        case "t":
            state.setTimeoutTimestamp(int(number))
        case "a" if in_pandas:
            state.setTimeoutTimestamp(int(number) + 3000)
        case "a":
            state.setTimeoutTimestamp(int(number), "3 seconds")
        case "g":
            found = state.get
            return str(found[0] if isinstance(found, tuple) else found)
        case "x":
            return _text(state.exists)
        case "w":
            return str(state.getCurrentWatermarkMs())
        case "o":
            return str(state.oldTimeoutTimestamp)
        case "j":
            return str(state.json())
        case "p":
            return str(state.getCurrentProcessingTimeMs())
    return "ok"


def _kind(error: Exception) -> str:
    """Return the kind of an error by Python's own classes, which a function written for either engine can catch."""
    return next(kind.__name__ for kind in (ValueError, TypeError, RuntimeError) if isinstance(error, kind))


def _text(value: bool) -> str:
    return "true" if value else "false"


def each(key: Any, rows: Any, state: Any) -> Iterator[str]:
    """For `flatMapGroupsWithState`."""
    return run(key, (row.say for row in rows), state)


def once(key: Any, rows: Any, state: Any) -> str:
    """For `mapGroupsWithState`."""
    return " ".join(each(key, rows, state))


def frames(key: Any, pdfs: Any, state: Any) -> Iterator[Any]:
    """For `applyInPandasWithState`: unchanged in both engines."""
    import pandas

    says = [say for pdf in pdfs for say in pdf["say"]]
    yield pandas.DataFrame({"value": list(run(key[0], says, state, in_pandas=True))})


TYPES = (
    "k int, b boolean, i int, h smallint, l bigint, f float, x double, s string, d date, ts timestamp, "
    "n timestamp_ntz, m decimal(10,2), y binary, a array<int>, p map<string,int>, r struct<u:int,v:string>"
)
STATE = "l bigint, x double, text string, b boolean, d date, m decimal(10,2)"


def described(key: Any, pdfs: Any, state: Any) -> Iterator[Any]:
    """Show the arguments of a function over frames, by types and reprs. The same function runs in both engines."""
    import datetime
    import decimal

    import pandas

    said = [f"{state!s} {state.getOption!r} {state.hasTimedOut} {[(type(one).__name__, repr(one)) for one in key]}"]
    for pdf in pdfs:
        said.append(f"{type(pdf.index).__name__} {pdf.index.tolist()} {pdf.dtypes.astype(str).to_dict()}")
        said += [f"{column}: {[(type(one).__name__, repr(one)) for one in pdf[column]]}" for column in pdf.columns]
        pdf["l"] = 0  # a frame is the function's own
        if len(pdf):
            last = pdf["i"].iloc[-1]
            state.update((last if last == last else None, pdf["x"].sum(), "s", True, datetime.date(2020, 1, 2),
                          decimal.Decimal("1.50")))  # fmt: skip
    yield pandas.DataFrame(
        {"n": range(len(said)), "said": said, "x": [1] * len(said), "t": pandas.Timestamp(5, unit="s")}
    )
    yield pandas.DataFrame({"said": ["by name"], "x": [float("nan")], "t": [pandas.NaT], "n": [7]})
    yield pandas.DataFrame({"n": [], "said": [], "x": [], "t": []})


NO_COMPILER = (
    "there is no `javac`, neither in JAVA_HOME nor on the PATH, to compile the functions that Spark is given in Java: "
    "install a JDK of version 17 or later (Debian, Ubuntu: `apt-get install openjdk-17-jdk-headless`; macOS: "
    "`brew install openjdk@17`); a JRE is not enough"
)


def compiler() -> str | None:
    """Return the path of `javac`, from JAVA_HOME or else from the PATH, or None."""
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("javac", path=f"{home}/bin") if home else None) or shutil.which("javac")


def compiled(spark: Any, source: Path = SOURCE) -> Any:
    """The class of a Java file, compiled into a folder that the JVM of the session has on its class path."""
    import pyspark

    folder = Path(spark.conf.get("spark.driver.extraClassPath"))
    if not (folder / f"{source.stem}.class").exists():
        javac = compiler()
        if javac is None:
            raise RuntimeError(f"{source.name}: {NO_COMPILER}")
        jars = f"{Path(pyspark.__file__).parent}/jars/*"
        made = [javac, "-nowarn", "--release", "17", "-cp", jars, "-d", str(folder), str(source)]
        subprocess.run(made, check=True)
    return getattr(spark._jvm, source.stem)
