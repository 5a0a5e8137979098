"""Retail data, one file per batch, equals DuckDB and a plain loop in Python. A small synthetic set always runs."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import tidemill as tm
from tests.model import retail
from tests.model.real_days import real_days

DAYS = 61
"""More than the timeout of the plain loop. An exhaustive run has all 305."""
# The made-up days on Spark are the one journey through Spark of `make test`.
DAYS_AND_ENGINES = [
    ("made-up", "local"),
    ("made-up", "spark"),
    pytest.param("real", "local", marks=pytest.mark.slow("days of real data")),
    pytest.param("real", "spark", marks=pytest.mark.servers("start Spark")),
]
QUERY = """
SELECT {key} AS key, count(*) AS lines, CAST(sum({units}) AS {units_type}) AS units,
       CAST(sum(CAST(Quantity * UnitPrice AS DECIMAL(20,3))) AS DECIMAL(20,3)) AS money
FROM read_csv({files}, header=true, columns={{
    'InvoiceNo': 'VARCHAR', 'StockCode': 'VARCHAR', 'Description': 'VARCHAR', 'Quantity': 'BIGINT',
    'InvoiceDate': 'TIMESTAMP', 'UnitPrice': 'DECIMAL(12,3)', 'CustomerID': 'DOUBLE', 'Country': 'VARCHAR'}})
GROUP BY ALL
"""


@pytest.fixture(params=["made-up", "real"])
def folder(request, tmp_path):
    if request.param == "made-up":
        (tmp_path / "data").mkdir()
        return retail.make_small(tmp_path / "data")
    return real_days(tmp_path / "days", DAYS)


def expected(files: list[Path], key: str) -> dict:
    rows = duckdb.sql(
        QUERY.format(key=key, units="Quantity", units_type="BIGINT", files=[str(f) for f in files])
    ).fetchall()
    return {key: (lines, units, money) for key, lines, units, money in rows}


def check_version(repository, version, files):
    spend = repository.state("spend", version=version).to_pylist()
    customers = expected(files, "CustomerID")
    assert {r["CustomerID"]: (r["lines"], r["total"]) for r in spend} == {
        key: (lines, money) for key, (lines, _, money) in customers.items()
    }
    table = repository.state("by-country", version=version)
    found = {row[table.schema.names[0]]: tuple(row.values())[1:4] for row in table.to_pylist()}
    assert found == expected(files, "Country")


@pytest.mark.parametrize(("folder", "engine"), DAYS_AND_ENGINES, indirect=["folder"])
def test_every_line_is_accounted_for_and_states_equal_duckdb(folder, tmp_path, engine):
    files = sorted(folder.glob("*.csv"))
    repository = tm.open(retail.pipeline(folder), root=str(tmp_path / "root"))
    repository.init()
    progress = repository.run(engine=engine)
    assert [one.version for one in progress] == list(range(len(files)))
    lines = duckdb.sql(f"SELECT count(*) FROM read_csv({[str(f) for f in files]}, header=true, all_varchar=true)")
    assert sum(one.numInputRows for one in progress) == lines.fetchall()[0][0]
    assert all(one.applied_rows == one.numInputRows for one in progress)
    check_version(repository, None, files)
    middle = min(100, len(files) // 2)
    check_version(repository, middle, files[: middle + 1])
    assert repository.run(engine=engine) == []


# Real days run on Spark in the test above.
@pytest.mark.parametrize(
    ("folder", "engine"),
    [
        ("made-up", "local"),
        pytest.param("made-up", "spark", marks=pytest.mark.servers("start Spark")),
        pytest.param("real", "local", marks=pytest.mark.slow("days of real data")),
    ],
    indirect=["folder"],
)
def test_a_thirty_day_event_timeout_equals_a_plain_loop(folder, tmp_path, engine):
    repository = tm.open(retail.pipeline(folder, timeout=True), root=str(tmp_path / "root"))
    repository.init()
    repository.run(engine=engine)
    state, closed = retail.naive(folder)
    found = {r["CustomerID"]: (r["lines"], r["total"]) for r in repository.state("spend").to_pylist()}
    assert found == state
    outputs = repository.outputs(sink="spend").to_pylist()
    assert len(closed) > 5
    assert sorted(
        ((r["_batch_id"], r["customer"], r["lines"], r["total"]) for r in outputs if r["closed"]), key=str
    ) == sorted(closed, key=str)
