"""What `docker/` says, as far as it can be checked without a Docker engine or Kubernetes.

Its pipeline, DAG, pools and `prepare.py` run for real, on an S3 server. Names of settings, commands and classes are
looked up in what is installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import tidemill as tm
from tests.servers.s3 import S3Server

DOCKER = Path(__file__).resolve().parents[2] / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VALUES = yaml.safe_load((DOCKER / "helm/values.yaml").read_text())
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "tidemill:local"}
SECRET = re.compile(r"PASSWORD|SECRET|_KEY$|TOKEN")
REFERENCE = re.compile(r"\$\{(\w+):\?[^}]*\}")


def variables(service: str) -> dict[str, str]:
    return {name: str(value) for name, value in SERVICES[service].get("environment", {}).items()}


def test_services_are_the_components_of_airflow_a_cluster_and_stores() -> None:
    assert set(OURS) == {
        "prepare", "api-server", "scheduler", "dag-processor", "triggerer", "spark-master", "spark-worker-1",
        "spark-worker-2",
    }  # fmt: skip
    assert set(SERVICES) - set(OURS) == {"postgres", "s3"}
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", {})) <= set(SERVICES) - {name}


def test_images_have_versions_and_containers_no_privileges() -> None:
    images = [one["image"] for name, one in SERVICES.items() if name not in OURS]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    for image in images:
        assert re.search(r":.*\d+\.\d+|:RELEASE\.\d{4}", image), image
    assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1] == "tidemill"
    for service in SERVICES.values():
        assert not {"user", "privileged", "cap_add", "network_mode", "pid"} & service.keys()
    pod, containers = VALUES["securityContexts"]["pod"], VALUES["securityContexts"]["containers"]
    assert pod["runAsNonRoot"] and pod["runAsUser"] == VALUES["uid"] == 50000
    assert not containers["allowPrivilegeEscalation"] and containers["capabilities"]["drop"] == ["ALL"]


def test_every_component_that_reaches_the_store_has_a_role() -> None:
    for component in ("scheduler", "triggerer", "apiServer"):
        account = VALUES[component]["serviceAccount"]
        assert account["name"].startswith("tidemill") and ":role/tidemill" in str(account["annotations"])


def test_ports_are_open_on_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports), ports


def test_secrets_come_from_the_environment_file(tmp_path: Path) -> None:
    named = set(REFERENCE.findall((DOCKER / "compose.yml").read_text()))
    for service in SERVICES:
        for name, value in variables(service).items():
            assert not SECRET.search(name) or REFERENCE.search(value), f"{service}: {name} is written down"
    script = f"import secrets_file, sys; from pathlib import Path; sys.exit(secrets_file.main(Path({str(tmp_path)!r})))"
    for status in (0, 1):  # the second call leaves the file as it is
        assert subprocess.run([sys.executable, "-c", script], cwd=DOCKER).returncode == status
    path = tmp_path / ".env"
    lines = dict(line.split("=", 1) for line in path.read_text().splitlines())
    assert set(lines) == named
    assert path.stat().st_mode & 0o077 == 0
    from cryptography.fernet import Fernet

    Fernet(lines["AIRFLOW_FERNET_KEY"])
    assert len(lines["AIRFLOW_JWT_SECRET"]) >= 64


def settings() -> Iterator[tuple[str, str]]:
    """Yield section and key of every setting of Airflow that a file names."""
    found = {name for service in SERVICES for name in variables(service)}
    found |= set(re.findall(r"\b(AIRFLOW__\w+)=", DOCKERFILE))
    for name in found:
        if name.startswith("AIRFLOW__"):
            _, section, key = name.lower().split("__")
            yield section, key
    for section, keys in VALUES["config"].items():
        yield from ((section, key) for key in keys)


def test_settings_of_airflow_exist(airflow_home: object) -> None:
    from airflow.configuration import retrieve_configuration_description

    known = retrieve_configuration_description()
    missing = [(section, key) for section, key in settings() if key not in known[section]["options"]]
    assert not missing


def test_commands_and_classes_exist(airflow_home: object) -> None:
    import pyspark
    from airflow.cli.cli_parser import get_parser

    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar"))
    with zipfile.ZipFile(jar) as classes:
        names = set(classes.namelist())
    parser = get_parser()
    for service in OURS.values():
        program, *arguments = service["command"]
        if program == "airflow":
            parser.parse_args(arguments)
        elif program == "spark-class":
            assert f"{arguments[0].replace('.', '/')}.class" in names
    script = SERVICES["prepare"]["command"][-1]
    for line in (
        *script.splitlines(),
        *VALUES["migrateDatabaseJob"]["args"][-1].partition("'")[2].split("'")[0].split(" && "),
    ):
        program, *arguments = line.split()
        if program == "airflow":
            parser.parse_args(arguments)
        else:
            assert (program, arguments) == ("python", ["/srv/prepare.py"])


def test_files_that_are_mounted_exist() -> None:
    for service in OURS.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DOCKER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
    assert (DOCKER / SERVICES["prepare"]["build"]["context"] / SERVICES["prepare"]["build"]["dockerfile"]).exists()


def test_each_pipeline_has_a_pool_that_airflow_imports(
    parse: Callable[..., Any], airflow_home: Path, tmp_path: Path
) -> None:
    pools = json.loads((DOCKER / "pools.json").read_text())
    (in_helm,) = VALUES["extraConfigMaps"].values()
    assert json.loads(yaml.safe_load(in_helm["data"])["pools.json"]) == pools
    bag = parse((DOCKER / "dags/orders_dag.py").read_text(), "orders_dag.py")
    assert bag.import_errors == {}
    assert set(bag.dags) == {f"orders{suffix}" for suffix in ("", "__sweep", "__maintain", "__replay", "__correct")}
    of_tasks = {task.pool for dag in bag.dags.values() for task in dag.tasks}
    assert of_tasks == set(pools) == {"orders"}
    command = [sys.executable, "-m", "airflow", "pools", "import", str(DOCKER / "pools.json")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    from airflow.models.pool import Pool

    found = Pool.get_pool("orders")
    assert found is not None and (found.slots, found.include_deferred) == (1, False)


def test_pipeline_and_preparation_work_on_s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = s3_server.new_root()
    options = s3_server.options
    variables = {
        "AWS_ACCESS_KEY_ID": options["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["aws_secret_access_key"],
        "AWS_DEFAULT_REGION": options.get("region_name", "us-east-1"),
        "AWS_ENDPOINT_URL_S3": options["endpoint_url"],
        "ORDERS_LAKE": lake,
        "ORDERS_PIPELINE": f"{DOCKER}/pipelines/orders.py:p",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for _ in range(2):  # the container may be started again
        assert subprocess.run([sys.executable, str(DOCKER / "prepare.py")]).returncode == 0
    run = [sys.executable, "-m", "tidemill", "run", f"--root={lake}/tidemill", variables["ORDERS_PIPELINE"]]
    assert subprocess.run(run).returncode == 0
    rows = tm.read(f"{lake}/tidemill", "orders").outputs(sink="spend").to_pylist()
    assert sorted((row["customer"], row["spent"], row["orders"]) for row in rows) == [("ann", 20.0, 2), ("bob", 3.0, 1)]
