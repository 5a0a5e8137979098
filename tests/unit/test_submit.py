"""`submit_args`: where each thing goes, and that no argument has a secret. `run_batch.py` before it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill as tm
from tidemill import run_batch

ROOT = "s3://lake/tidemill"


def test_arguments_are_those_of_run_and_settings_of_spark_are_for_the_submitter() -> None:
    job = tm.submit_args(
        "retail:p", ROOT, branch="fix", conf={"spark.executor.memory": "4g", "spark.speculation": True,
        "tidemill.fail_if_late": "5%", "spark.unset": None}, env={"TEAM": "lake"}, result="s3://lake/r.json",
        storage_options={"root": {"endpoint_url": "https://store.example"}}, max_batches=3, time_budget=60.5,
        batch_time="2026-01-01", tasks=8, engine="local",
    )  # fmt: skip
    assert job.arguments == [
        *("--root=s3://lake/tidemill", "--branch=fix", "--engine=local", "--max-batches=3", "--time-budget=60.5"),
        *("--batch-time=2026-01-01", "--tasks=8", "--result-file=s3://lake/r.json", "--conf"),
        *("tidemill.fail_if_late=5%",
          "--storage-option=root.endpoint_url=https://store.example", "--", "retail:p"),
    ]  # fmt: skip
    assert job.conf == {"spark.executor.memory": "4g", "spark.speculation": "true"}
    assert (job.environment, job.result) == ({"TEAM": "lake"}, "s3://lake/r.json")
    assert (job.pipeline, job.root, job.branch) == ("retail:p", ROOT, "fix")
    assert Path(job.application) == Path(run_batch.__file__)


def test_commands() -> None:
    job = tm.submit_args("retail:p", ROOT, conf={"spark.a": "b c"}, application="s3://lake/run_batch.py")
    rest = ["--root=s3://lake/tidemill", "--branch=main", "--", "retail:p"]
    assert job.submit_command("--master", "yarn") == [
        "spark-submit", "--master", "yarn", "--conf", "spark.a=b c", "s3://lake/run_batch.py", *rest
    ]  # fmt: skip
    assert job.python_command("/opt/python") == [
        "/opt/python", "-P", "s3://lake/run_batch.py", "--conf", "spark.a=b c", *rest
    ]  # fmt: skip


def test_secrets_are_in_the_environment_alone() -> None:
    options = {"root": {"endpoint_url": "https://x", "aws_secret_access_key": "hush", "max_attempts": 3}}
    job = tm.submit_args("retail:p", ROOT, storage_options=options, env={"AWS_SECRET_ACCESS_KEY": "hush"})
    assert "hush" not in " ".join([*job.submit_command(), *job.python_command(), repr(job)])
    assert json.loads(job.environment["TIDEMILL_STORAGE_OPTIONS"]) == {
        "root": {"aws_secret_access_key": "hush", "max_attempts": 3}
    }
    for move in (lambda: job.environment_in_conf("spark.yarn.appMasterEnv."), job.environment_in_arguments):
        with pytest.raises(tm.InvalidInput, match="`AWS_SECRET_ACCESS_KEY`, which looks like a secret"):
            move()


@pytest.mark.parametrize("key", ["spark.hadoop.fs.s3a.secret.key", "spark.authenticate.secret", "spark.my.password"])
def test_secret_settings_of_spark_are_refused(key: str) -> None:
    with pytest.raises(tm.InvalidInput, match=f"conf has the setting `{key}`, which looks like a secret") as found:
        tm.submit_args("retail:p", ROOT, conf={key: "hush"})
    assert "hush" not in str(found.value)


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.kubernetes.driver.secretKeyRef.PASSWORD",
        "spark.security.credentials.hive.enabled",
    ],
)
def test_settings_that_only_name_secrets_are_accepted(key: str) -> None:
    assert tm.submit_args("retail:p", ROOT, conf={key: "x"}).conf == {key: "x"}


def test_environment_goes_where_a_platform_takes_it() -> None:
    job = tm.submit_args("retail:p", ROOT, env={"TEAM": "lake=1"}, conf={"spark.a": "b"})
    moved = job.environment_in_conf("spark.kubernetes.driverEnv.")
    assert (moved.conf, moved.environment) == ({"spark.a": "b", "spark.kubernetes.driverEnv.TEAM": "lake=1"}, {})
    moved = job.environment_in_arguments()
    assert (moved.arguments, moved.environment) == (["--env=TEAM=lake=1", *job.arguments], {})
    assert job.environment == {"TEAM": "lake=1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pipeline": "retail"}, "invalid pipeline reference `retail`: expected `module:name` or `path.py:name`"),
        ({"pipeline": 3}, "invalid pipeline reference `3`"),
        ({"engine": "sprak"}, "unknown engine `sprak`; did you mean `spark`"),
        ({"conf": {"tidemill.blok_rows": 1}}, "unknown setting `tidemill.blok_rows`; did you mean"),
        ({"conf": {"executor.memory": "4g"}}, "unknown setting `executor.memory`"),
        ({"conf": "spark.a=b"}, "conf is a str: expected a mapping"),
        ({"storage_options": {"roots": {}}}, "storage_options has `roots`: expected mappings in the sections root"),
        ({"storage_options": {"root": "x"}}, "storage_options has `root`: expected mappings"),
    ],
)
def test_invalid_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(tm.InvalidInput, match=message):
        tm.submit_args(**{"pipeline": "retail:p", "root": ROOT, **arguments})  # type: ignore[arg-type]


def test_run_batch_sets_variables_and_drops_what_a_template_left_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    found = run_batch.without_environment(
        ["--env=A=b=c", "--env=B=", "--max-batches=", "--time-budget=None", "--conf", "tidemill.x=", "--root=r", "--",
         "p:q", "--env=C=d"]
    )  # fmt: skip
    assert found == ["--conf", "tidemill.x=", "--root=r", "--", "p:q", "--env=C=d"]
    assert os.environ == {"A": "b=c", "B": ""}


@pytest.mark.parametrize("bad", ["--env=hush", "--env==hush"])
def test_bad_variable_is_a_usage_error_that_does_not_show_it(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_batch.without_environment([bad])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "Error: --env expects NAME=VALUE\n"


def test_copy_of_run_batch_keeps_the_folder_of_the_job_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = str(Path(run_batch.__file__).parent)
    monkeypatch.setattr(sys, "path", [package, "/else"])
    run_batch.leave_package()
    assert sys.path == ["/else"]
    monkeypatch.setattr(sys, "path", [str(tmp_path), "/else"])
    monkeypatch.setattr(run_batch, "__file__", str(tmp_path / "run_batch.py"))
    run_batch.leave_package()
    assert sys.path == [str(tmp_path), "/else"]


def test_importing_submit_imports_neither_pyspark_nor_airflow_nor_arrow() -> None:
    code = (
        "import sys, tidemill as tm\ntm.submit_args('retail:p', '/x')\n"
        "print([name for name in ('pyspark', 'airflow', 'pyarrow', 'boto3') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(tm.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout == "[]\n"
