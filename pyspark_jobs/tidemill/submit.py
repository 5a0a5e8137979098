"""`submit_args`: what a submitter such as spark-submit needs to launch one run, as plain values.

It starts nothing and reads nothing. INVARIANT: no argument and no setting contains a secret, because every user of the
submitting machine can read its command lines, and platforms show them. Secrets are in `environment` only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from .errors import InvalidInput
from .names import ENGINES, STORAGE_ENVIRONMENT
from .secret_names import check_no_secrets, has_secret, holds_secret, is_secret, is_secret_setting
from .settings import check_setting_names
from .spelling import unknown
from .values import dataclass

_SECTIONS = ("root", "source", "sink")


@dataclass(frozen=True)
class SparkJob:
    """One run of a pipeline, ready for a submitter. All fields are plain values; a change makes a new object.

    - `application`: the file that the driver runs, `run_batch.py`: a path or a URI.
    - `arguments`: the arguments of that file.
    - `conf`: the settings `spark.…`, for the submitter.
    - `environment`: variables of the driver.
    - `result`: where the driver writes its result, or None.
    - `pipeline`, `root`, `branch`: what it runs.
    """

    application: str
    arguments: list[str]
    conf: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    result: str | None = None
    pipeline: str = ""
    root: str = ""
    branch: str = "main"

    def submit_command(self, *options: str, program: str = "spark-submit") -> list[str]:
        """Return the command line of spark-submit, with `options` first, for example `--master yarn`.

        Run it with the variables of `environment`.
        """
        return [program, *options, *_settings(self.conf), self.application, *self.arguments]

    def python_command(self, python: str = "python3") -> list[str]:
        """Return the command line without spark-submit: the driver starts Spark itself, or connects (`spark.remote`).

        Run it with the variables of `environment`.
        """
        return [python, "-P", self.application, *_settings(self.conf), *self.arguments]

    def environment_in_conf(self, prefix: str) -> SparkJob:
        """Return the job with its variables as settings, for platforms that pass no environment on.

        - `prefix`: `spark.yarn.appMasterEnv.`, `spark.kubernetes.driverEnv.` or `spark.emr-serverless.driverEnv.`.

        Raises `InvalidInput` if a variable looks like a secret, because settings are shown.
        """
        _refuse_secret_variables(self.environment, "settings")
        added = {f"{prefix}{name}": value for name, value in self.environment.items()}
        return replace(self, conf={**self.conf, **added}, environment={})

    def environment_in_arguments(self) -> SparkJob:
        """Return the job with its variables as arguments `--env=NAME=VALUE`, which `run_batch.py` sets when it starts.

        Raises `InvalidInput` if a variable looks like a secret, because arguments are shown.
        """
        _refuse_secret_variables(self.environment, "arguments")
        added = [f"--env={name}={value}" for name, value in self.environment.items()]
        return replace(self, arguments=[*added, *self.arguments], environment={})


def submit_args(
    pipeline: str,
    root: str | os.PathLike[str],
    *,
    branch: str = "main",
    application: str | os.PathLike[str] | None = None,
    conf: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
    result: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    max_batches: str | int | None = None,
    time_budget: str | float | None = None,
    batch_time: str | int | None = None,
    tasks: str | int | None = None,
) -> SparkJob:
    """Return the arguments that launch one run with spark-submit or any other submitter. Nothing is started.

    - `pipeline`: `module:name`, or `path.py:name` with a path on the driver.
    - `root`, `branch`: the repository, as the driver sees it.
    - `application`: a path or URI of `run_batch.py` that the submitter reads. Default: the file of this installation.
    - `conf`: settings. `spark.…` go to the submitter, `tidemill.…` to the arguments.
    - `env`: variables of the driver.
    - `storage_options`: `{"root": {…}, "source": {…}, "sink": {…}}`. Those that look like secrets go to `environment`.
    - `result`: a file or `s3://bucket/name` in which the driver leaves its result.
    - `engine`, `max_batches`, `time_budget`, `batch_time`, `tasks`: options of `tidemill run`. Engine: default "spark".

    Raises `InvalidInput` for an invalid argument, and for a setting that looks like a secret.
    """
    place, colon, name = pipeline.rpartition(":") if isinstance(pipeline, str) else ("", "", "")
    if not (colon and place and name.isidentifier()):
        raise InvalidInput(
            f"submit_args: invalid pipeline reference `{pipeline}`: expected `module:name` or `path.py:name`",
            hint="name the pipeline as the driver finds it, for example `retail:p`",
        )
    if engine is not None and engine not in ENGINES:
        raise unknown("engine", str(engine), ENGINES)
    spark, own = _conf(conf)
    shown, secret = _storage(storage_options)
    written = None if result is None else os.fspath(result)
    for what, place in (
        ("root", os.fspath(root)),
        ("result", written or ""),
        ("application", os.fspath(application or "")),
    ):
        check_no_secrets(place, f"submit_args: {what}")
    options = {"root": os.fspath(root), "branch": branch, "engine": engine, "max_batches": max_batches,
               "time_budget": time_budget, "batch_time": batch_time, "tasks": tasks,
               "result_file": written}  # fmt: skip
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in options.items() if value is not None]
    arguments += [*_settings(own), *(f"--storage-option={one}" for one in shown), "--", pipeline]
    environment = {str(key): str(value) for key, value in (env or {}).items()}
    if secret:
        environment[STORAGE_ENVIRONMENT] = json.dumps(secret)
    return SparkJob(
        application=os.fspath(application or Path(__file__).with_name("run_batch.py")),
        arguments=arguments,
        conf=spark,
        environment=environment,
        result=written,
        pipeline=pipeline,
        root=os.fspath(root),
        branch=branch,
    )


def _settings(conf: Mapping[str, str]) -> list[str]:
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def _conf(conf: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of Spark and those of Tidemill, as text."""
    if conf is not None and not isinstance(conf, Mapping):
        raise InvalidInput(f"conf is a {type(conf).__name__}: expected a mapping, such as {{'spark.master': 'yarn'}}")
    found = {str(key): _text(value) for key, value in (conf or {}).items() if value is not None}
    spark = {key: value for key, value in found.items() if key.startswith("spark.")}
    own = {key: value for key, value in found.items() if key not in spark}
    check_setting_names(own)
    for key, value in spark.items():
        if is_secret_setting(key) or has_secret(value):
            raise InvalidInput(
                f"conf has the setting `{key}`, which looks like a secret: settings are arguments of spark-submit, "
                "which others can read",
                hint="put it into `spark-defaults.conf` or a `--properties-file` of the submitter, or give the job a "
                "role of its platform",
            )
    return spark, own


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _storage(given: Mapping[str, Mapping[str, Any]] | None) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Return the options that may be arguments, as `section.key=value`, and the others by section."""
    shown: list[str] = []
    hidden: dict[str, dict[str, Any]] = {}
    for section, options in (given or {}).items():
        if section not in _SECTIONS or not isinstance(options, Mapping):
            raise InvalidInput(
                f"storage_options has `{section}`: expected mappings in the sections {', '.join(_SECTIONS)}"
            )
        for key, value in options.items():
            if isinstance(value, str) and not is_secret(str(key)):
                check_no_secrets(value, f"storage_options: `{section}.{key}`")
                shown.append(f"{section}.{key}={value}")
            else:
                hidden.setdefault(section, {})[str(key)] = value
    return shown, hidden


def _refuse_secret_variables(environment: Mapping[str, str], where: str) -> None:
    for name, value in environment.items():
        if holds_secret(name, value) or name == STORAGE_ENVIRONMENT:
            raise InvalidInput(
                f"the environment has `{name}`, which looks like a secret, and {where} are shown by platforms",
                hint="give the driver a role of its platform, or use the platform's own store of secrets",
            )
