"""Real data: every line of the Online Retail files is a row, equal to what Python's own csv module reads."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.unit.sources.reading import rejects, rows
from tidemill.sources.contract import ReadContext
from tidemill.sources.files import Files

pytestmark = pytest.mark.slow("a year of real data")

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "online-retail"
SCHEMA = (
    "InvoiceNo string, StockCode string, Description string, Quantity int, InvoiceDate timestamp, "
    "UnitPrice decimal(10,2), CustomerID double, Country string"
)


@pytest.fixture
def source() -> Files:
    if not FOLDER.is_dir():
        pytest.skip("the real data is not there: put the 305 daily files of Online Retail into ../shared/data")
    return Files(FOLDER, format="csv", header=True, escape='"', schema=SCHEMA)


def test_every_line_of_the_first_and_last_days_is_a_row(source: Files) -> None:
    splits = source.splits(source.look("source"))
    assert len(splits) == 305
    for split in (*splits[:5], *splits[-5:]):
        found = list(source.read(split, 1000, ReadContext()))
        with open(FOLDER / split.path, newline="", encoding="utf-8") as file:
            expected = [
                {
                    **{name: text or None for name, text in row.items()},
                    "Quantity": int(row["Quantity"]),
                    "InvoiceDate": datetime.fromisoformat(row["InvoiceDate"]).replace(tzinfo=UTC),
                    "UnitPrice": Decimal(row["UnitPrice"]).quantize(Decimal("0.01")),
                    "CustomerID": float(row["CustomerID"]) if row["CustomerID"] else None,
                    "_row": number,
                }
                for number, row in enumerate(csv.DictReader(file))
            ]
        assert rows(found) == expected
        assert rejects(found) == []
        assert all(block.rows.num_rows == 1000 for block in found[:-1])


def test_all_lines_are_accounted_for(source: Files) -> None:
    splits = source.splits(source.look("source"))
    counted = sum(block.rows.num_rows for split in splits for block in source.read(split, 100_000, ReadContext()))
    lines = sum((FOLDER / split.path).read_bytes().count(b"\n") for split in splits)
    assert counted == lines - len(splits) == 541_909
