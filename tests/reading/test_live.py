"""Random files, read by Spark and by Tidemill in the same run: the same rows, and the same records rejected.

The seed is fixed; `TIDEMILL_READING_SEED` sets another. Files are made so that no difference that is decided and
documented can arise, or the difference is named here.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import spark as spark_process
from tests.reading.make import exactly, session
from tests.reading.plain import CORRUPT, plain
from tests.reading.reading import read_text
from tidemill.errors import InvalidInput

SEED = int(os.environ.get("TIDEMILL_READING_SEED", "37"))
FILES = 400

Make = Callable[[random.Random], str]

CSV_SCHEMA = "a string, n int, d decimal(8,2), t date, b string"
CSV = {
    "defaults": {},
    "doubled quotes": {"escape": '"'},
    "semicolon, single quotes": {"sep": ";", "quote": "'"},
    "no quotes": {"quote": ""},
    "two characters": {"sep": "||"},
    "values": {"nullValue": "NA", "emptyValue": "E"},
    "white space": {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True},
    "comments": {"comment": "#"},
}
"""Options by what they are about."""

JSON_SCHEMA = "v string, n int, d decimal(8,2), t timestamp, s struct<p:int,q:array<string>>, m map<string,double>"


def csv_field(chance: random.Random, quote: str, separator: str, is_text: bool) -> str:
    tokens = ["a", "b c", "1", "-20", "007", "1.5", "2.345", "2024-01-05", "2024-1-5", "NA", "é", "#", "\\", " x", "x "]
    # Two tokens may be a year that Tidemill refuses, and a comma in a decimal is dropped by Spark.
    text = "".join(chance.choices(tokens, k=chance.choice([0, 1, 1, 1, 2 if is_text else 1])))
    kind = chance.random()
    if not quote or kind < 0.6:
        return text
    more = separator if is_text else "x"
    inner = chance.choice([text, text + more, text + "\\" + quote, quote * 2 + text, text + "\n" + text])
    if kind < 0.9:
        return quote + inner + quote
    return chance.choice([text + "x" + quote, quote + text + quote + "x", " " + quote + text + quote])


def csv_file(options: dict[str, Any]) -> Make:
    quote, separator = options.get("quote", '"'), options.get("sep", ",")

    def make(chance: random.Random) -> str:
        end = chance.choice(["\n", "\r\n", "\r"])
        lines = []
        for _ in range(chance.randrange(1, 6)):
            width = chance.choice([5, 5, 5, 5, 4, 6])
            # A line of white space alone is a record for Spark's `multiLine`, so each has a word.
            fields = ["w", *(csv_field(chance, quote, separator, place == 4) for place in range(1, width))]
            lines.append(separator.join(fields).replace("\n", end))
        # At the end of a file, Spark's parser for several characters doubles a quote.
        return end.join(lines) + chance.choice([end, "" if len(separator) == 1 else end])

    return make


def json_value(chance: random.Random, depth: int = 0) -> str:
    flat = [
        "1", "-7", "1.10", "2.345", "1e2", "12345678901234567.89", "2147483648", "true", "null", '"x"', '"1"', '""',
        "NaN", '"\\u00e9"', '"2024-01-05T10:00:00Z"', "'single'",
    ]  # fmt: skip
    kind = chance.random()
    if depth > 2 or kind < 0.6:
        return chance.choice(flat)
    if kind < 0.75:
        return "[" + ", ".join(json_value(chance, depth + 1) for _ in range(chance.randrange(3))) + "]"
    names = chance.sample("pqvk", k=chance.randrange(4))
    pairs = [f'"{name}":{json_value(chance, depth + 1)}' for name in names]
    return "{" + ",".join(pairs) + "}"


def json_file(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randrange(1, 6)):
        # Of equal names the last counts; in Spark the others must fit, too, as any value fits `v`.
        names = chance.sample(["v", "v", "v", "n", "d", "t", "s", "m", "V", "other"], k=chance.randrange(6))
        line = "{" + ", ".join(f'"{name}": {json_value(chance)}' for name in names) + "}"
        if chance.random() < 0.15:
            at = chance.randrange(len(line))
            line = line[:at] + chance.choice([",", "}", "x"]) + line[at + 1 :]
        lines.append(line)
    return "\n".join(lines) + chance.choice(["\n", "\r\n", ""])


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    made = session()
    yield made
    made.stop()
    spark_process.end_jvm()


def by_spark(spark: Any, folder: Path, format: str, schema: str, options: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the rows of each file of a folder, a corrupt record as "BAD"."""
    reader = spark.read.schema(f"{schema}, {CORRUPT} string").options(columnNameOfCorruptRecord=CORRUPT, **options)
    frame = exactly(reader.format(format).load(str(folder)), "_metadata.file_name AS file")
    found = defaultdict(list)
    for row in frame.collect():
        *values, corrupt, file = row
        found[file].append("BAD" if corrupt is not None else [plain(one) for one in unpacked(values)])
    return found


def unpacked(value: Any) -> Any:
    """Return rows in a value as dicts."""
    if hasattr(value, "asDict"):
        return {name: unpacked(one) for name, one in value.asDict().items()}
    return [unpacked(one) for one in value] if isinstance(value, list) else value


def loses_separators(text: str, quote: str, options: dict[str, Any]) -> bool:
    """Whether Spark's parser may drop a separator, and with it a line end: after `"\\`, and, if separators have several
    characters, after a quote and a space."""
    after_escape = bool(quote) and options.get("escape", "\\") != quote and quote + "\\" in text
    return after_escape or (len(options.get("sep", ",")) > 1 and quote + " " in text)


def with_line_feeds(value: Any) -> Any:
    """Return a value with line feeds for other line ends, as Spark reads those in quotes."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n")
    return [with_line_feeds(one) for one in value] if isinstance(value, list) else value


@pytest.mark.servers("read random files with Spark")
@pytest.mark.parametrize("name", CSV)
def test_random_files_of_csv_have_the_rows_of_spark(spark: Any, tmp_path: Path, name: str) -> None:
    options, chance, compared = CSV[name], random.Random(f"{SEED} {name}"), 0
    quote = options.get("quote", '"')
    (tmp_path / "files").mkdir()
    texts = {f"{number}.csv": csv_file(options)(chance) for number in range(FILES)}
    for file, text in texts.items():
        (tmp_path / "files" / file).write_bytes(text.encode())
    theirs = by_spark(spark, tmp_path / "files", "csv", CSV_SCHEMA, options | {"multiLine": True})
    for file, text in texts.items():
        if loses_separators(text, quote, options):
            continue
        try:
            found = read_text(tmp_path, text.encode(), "csv", CSV_SCHEMA, options)
        except InvalidInput as error:
            if "is not closed" in str(error):
                continue  # Spark takes the rest of the file as one value
            raise
        if any("is not closed" in reason for reason in reasons(tmp_path, text, "csv", CSV_SCHEMA, options)):
            continue
        assert with_line_feeds(found) == with_line_feeds(theirs[file]), (text, options)
        compared += 1
    assert compared > FILES // 4


@pytest.mark.servers("read random files with Spark")
def test_random_files_of_json_have_the_rows_of_spark(spark: Any, tmp_path: Path) -> None:
    chance, compared = random.Random(SEED), 0
    (tmp_path / "files").mkdir()
    texts = {f"{number}.json": json_file(chance) for number in range(3 * FILES)}
    for file, text in texts.items():
        (tmp_path / "files" / file).write_bytes(text.encode())
    theirs = by_spark(spark, tmp_path / "files", "json", JSON_SCHEMA, {})
    for file, text in texts.items():
        if any("expected the end of the line" in reason for reason in reasons(tmp_path, text, "json", JSON_SCHEMA, {})):
            continue  # Spark ignores what follows an object
        found = read_text(tmp_path, text.encode(), "json", JSON_SCHEMA, {})
        assert found == theirs[file], text
        compared += 1
    assert compared > 2 * FILES


def reasons(folder: Path, text: str, format: str, schema: str, options: dict[str, Any]) -> list[str]:
    """Return why records of a file are rejected."""
    from tests.unit.sources.reading import blocks, rejects
    from tidemill.sources.files import Files

    path = folder / f"a.{format}"
    path.write_bytes(text.encode())
    return [
        one["reason"]
        for one in rejects(blocks(Files(path, format=format, schema=schema, mode="PERMISSIVE", **options)))
    ]
