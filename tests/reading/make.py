"""Record what real Spark reads: `python -m tests.reading.make`. It takes two minutes and rewrites both recordings.

The recordings are the oracle: they are made once, and again only if an input is added.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.reading.inputs import CSV_FILES, CSV_VALUES, JSON_FILES, JSON_VALUES, ZONE, Input
from tests.reading.plain import CORRUPT, plain, shown

RECORDED = Path(__file__).parent / "recorded"


def main() -> None:
    """Read every input with Spark and write the recordings."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        csv = {kind: values(spark, Path(folder), kind, texts, "csv") for kind, texts in CSV_VALUES.items()}
        js = {kind: values(spark, Path(folder), kind, texts, "json") for kind, texts in JSON_VALUES.items()}
        files = {name: whole(spark, Path(folder), one, "csv") for name, one in CSV_FILES.items()}
        lines = {name: whole(spark, Path(folder), one, "json") for name, one in JSON_FILES.items()}
    write("csv", {"values": csv, "files": files})
    write("json", {"values": js, "files": lines})
    spark.stop()


def session() -> Any:
    """Start Spark in the time zone of the inputs."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", ZONE).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def values(spark: Any, folder: Path, kind: str, texts: list[str], format: str) -> dict[str, Any]:
    """Return what each text is in a column of a type; "BAD" if its record is corrupt."""
    path = folder / f"values.{format}"
    path.write_bytes(written(texts, format))
    found = read(spark, path, f"i int, v {kind}", {"sep": "|"} if format == "csv" else {}, format)
    pairs = zip(texts, found, strict=True)
    return {text: "BAD" if row[CORRUPT] is not None else row["v"] for text, row in pairs}


def written(texts: list[str], format: str) -> bytes:
    """Return a file with a text a line, each with its number."""
    if format == "csv":
        return "".join(f"{number}|{text}\n" for number, text in enumerate(texts)).encode()
    return "".join(f'{{"i":{number},"v":{text}}}\n' for number, text in enumerate(texts)).encode()


def whole(spark: Any, folder: Path, given: Input, format: str) -> list[Any]:
    """Return the rows of a file; a corrupt record is "BAD". CSV is read as Tidemill does, with line ends in quotes."""
    path = folder / f"whole.{format}"
    path.write_bytes(given.data.encode())
    quoted = format == "csv" and '"' in given.data and "lineSep" not in given.options
    options = given.options | ({"multiLine": True} if quoted else {})
    names = [column.split()[0] for column in given.schema.replace("<p:int,q", "").split(", ")]
    found = read(spark, path, given.schema, options, format)
    return ["BAD" if row[CORRUPT] is not None else [row[name] for name in names] for row in found]


def read(spark: Any, path: Path, schema: str, options: dict[str, object], format: str) -> list[dict[str, Any]]:
    """Return the rows of a file in a plain form."""
    reader = spark.read.schema(f"{schema}, {CORRUPT} string").options(columnNameOfCorruptRecord=CORRUPT, **options)
    frame = exactly(reader.format(format).load(str(path)))
    return [{name: plain(value) for name, value in row.asDict(True).items()} for row in frame.collect()]


def exactly(frame: Any, *more: str) -> Any:
    """Return the columns of a frame, times as numbers that Python does not change, and `more` expressions."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    exact = {"date": "unix_date({})", "timestamp": "unix_micros({})", "timestamp_ntz": "cast({} as string)"}
    columns = [f"{exact.get(kind, '{}').format(name)} AS {name}" for name, kind in kinds.items()]
    return frame.selectExpr(*columns, *more)


def write(name: str, found: dict[str, dict[str, Any]]) -> None:
    """Write a recording, a line an entry."""
    parts = []
    for part, entries in found.items():
        lines = ",\n".join(f"{shown(key)}: {shown(value)}" for key, value in entries.items())
        parts.append(f"{shown(part)}: {{\n{lines}\n}}")
    (RECORDED / f"{name}.json").write_text("{" + ",\n".join(parts) + "}\n")
    print(name, {part: len(entries) for part, entries in found.items()})


if __name__ == "__main__":
    main()
