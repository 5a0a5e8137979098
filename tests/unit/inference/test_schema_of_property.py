"""`schema_of` against the reader: whatever files hold, the schema that it finds reads every record that can be read."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.sources.reading import blocks, file, rejects, values
from tidemill.inference.schema_of import infer
from tidemill.schema import to_arrow, to_ddl
from tidemill.sources.files import Files

NUMBERS = ["0", "-1", "7", "007", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
           "1" * 30, "1" * 38, "9" * 39, "1.5", "-0.25", "1e3", "1E-400", "1e400", "12345678901234567.89",
           "1" * 37 + ".25", "0.1234567", "-0", "00.5"]  # fmt: skip
WORDS = ["", "x", " 7 ", "true", "FALSE", "NaN", "Infinity", "-Inf", "2024-01-05", "24-01-05", "2024-1-5", "5.1.2024",
         "2024-01-05 10:00:00", "2024-01-05T10:00:00.5Z", "2024-01-05 junk", "9999-12-31", "0001-01-01", "12:00",
         "a\u2028b", "a\x85b", "\u00e9\u4e2d", "`", "\x1b[31m", "+5", ".5", "5.", "1d", "0x1p3", "٣"]  # fmt: skip
NAMES = ["a", "A", "a0", "b", "", "name", "Name", "x`y", "x y", "_row", "_batch_id", "é", "a.b", "\x1b", "select"]
SEEDS = range(150)


def some(random: random.Random, choices: list[str]) -> list[str]:
    """Return few of the choices, so that columns of one kind are frequent."""
    return random.sample(choices, random.randint(1, 2))


def read_again(folder: Path, found: Any, kind: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rejects of the files of a folder, read with the schema that was found, which is also valid as DDL."""
    assert to_arrow(to_ddl(found.schema)) == found.schema == to_arrow(found.schema)
    by_name = options.get("header") and not options.get("enforceSchema")
    more = {"missingColumns": "null"} if by_name else {}
    source = Files(folder, format=kind, schema=found.schema, mode="PERMISSIVE", **options, **more)  # type: ignore[arg-type]
    return rejects(blocks(source))


def json_value(random: random.Random, kind: str, depth: int) -> str:
    if random.random() < 0.15:
        return "null"
    if kind == "any":
        kind = random.choice(["number", "word", "boolean", "array", "object"])
    if kind == "number":
        return random.choice([one for one in NUMBERS if not one.lstrip("-").startswith("00") and one != "007"])
    if kind == "word":
        return json.dumps(random.choice(WORDS), ensure_ascii=random.random() < 0.5)
    if kind == "boolean":
        return random.choice(["true", "false"])
    if kind == "array":
        inner = random.choice(["number", "word", "boolean"]) if depth < 3 or random.random() < 0.5 else "any"
        return f"[{', '.join(json_value(random, inner, depth + 1) for _ in range(random.randint(0, 3)))}]"
    return json_object(random, random.sample(NAMES, 2), ["number", "any" if depth < 2 else "word"], depth + 1)


def json_object(random: random.Random, names: list[str], kinds: list[str], depth: int = 0) -> str:
    pairs = [
        f"{json.dumps(name)}:{json_value(random, kind, depth)}" for name, kind in zip(names, kinds, strict=False)
        if random.random() < 0.9
    ]  # fmt: skip
    return "{" + ",".join(pairs) + "}"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_of_random_json_fits_the_schema_that_was_found(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    options: dict[str, Any] = chance.choice([{}, {"multiLine": True}, {"encoding": "UTF-16"}, {"lineSep": ";;"}])
    kinds = [chance.choice(["number", "word", "boolean", "array", "object", "any"]) for _ in range(4)]
    for number in range(chance.randint(1, 3)):
        names = chance.sample(NAMES, 4)
        lines = [json_object(chance, names, kinds) for _ in range(chance.randint(1, 5))]
        text = options.get("lineSep", "\n").join(lines)
        file(tmp_path, f"{number}.json", text.encode(options.get("encoding", "utf-8")))
    found = infer(sorted(map(str, tmp_path.iterdir())), None, options)
    if found.schema.names:
        assert read_again(tmp_path, found, "json", options) == [], found.notes


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_of_random_csv_fits_the_schema_that_was_found(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    options: dict[str, Any] = chance.choice(
        [{}, {"header": True}, {"header": True, "enforceSchema": True}, {"sep": "||"}, {"dateFormat": "d.M.yyyy"}]
    )
    names = chance.choices([name for name in NAMES if name != "\x1b"], k=3)
    cells = [some(chance, chance.choice([NUMBERS, WORDS])) + ["", "1"][: chance.randint(0, 2)] for _ in range(3)]
    for number in range(chance.randint(1, 2)):
        order = list(range(3))
        if options == {"header": True}:
            chance.shuffle(order)
        lines = [[names[place] for place in order]] if options.get("header") else []
        lines += [[chance.choice(cells[place]) for place in order] for _ in range(chance.randint(1, 5))]
        text = "".join(options.get("sep", ",").join(line) + "\n" for line in lines)
        file(tmp_path, f"{number}.csv", text)
    found = infer(sorted(map(str, tmp_path.iterdir())), None, options)
    if found.schema.names:
        assert read_again(tmp_path, found, "csv", options) == [], found.notes


def number(random: random.Random) -> str:
    """Return the text of a number, often with about as many digits as a double or a decimal keeps."""
    digits = random.choice([1, 3, 15, 16, 17, 18, 19, 30, 38, 39, 400])
    whole = str(random.randrange(10 ** random.randint(0, digits)))
    text = random.choice(["", "-"]) + whole
    if random.random() < 0.6:
        text += "." + "".join(random.choices("0123456789", k=max(1, digits - len(whole)))) + random.choice(["", "000"])
    if random.random() < 0.3:
        power = random.choice([0, 1, 5, 20, 290, 308, 324, 400, 10**9])
        text += f"{random.choice('eE')}{random.choice(['', '+', '-'])}{power}"
    return text


def exact(value: Any) -> Decimal:
    return Decimal(repr(value) if isinstance(value, float) else value)


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_type_that_was_found_keeps_every_number_exactly(tmp_path: Path, seed: int, kind: str) -> None:
    chance = random.Random(seed)
    likely = chance.choice(["NaN", "Infinity", "0.1", "9007199254740993", "0e999999"])
    texts = [chance.choice([number(chance), likely]) for _ in range(chance.randint(1, 4))]
    lines = [text if kind == "csv" else f'{{"_c0":{text}}}' for text in texts]
    path = file(tmp_path, f"a.{kind}", "".join(f"{line}\n" for line in lines))
    found = infer([str(path)], None, {})
    read = values(blocks(Files(tmp_path, format=kind, schema=found.schema)))  # type: ignore[arg-type]
    assert [str(exact(value)) for (value,) in read if not exact(value).is_finite()] == [
        text for text in texts if not Decimal(text).is_finite()
    ]
    finite = [(exact(value), text) for (value,), text in zip(read, texts, strict=True) if Decimal(text).is_finite()]
    assert all(value == Decimal(text) for value, text in finite), (found.schema, found.notes, finite)


def test_a_number_that_no_integer_or_decimal_holds_keeps_its_text(tmp_path: Path) -> None:
    path = file(tmp_path, "a.json", '{"a": 9223372036854775808, "b": ' + "9" * 39 + ', "c": 1}\n')
    found = infer([str(path)], None, {})
    assert to_ddl(found.schema) == "a decimal(38,0), b string, c int"
    source = Files(tmp_path, format="json", schema=found.schema)
    assert pa.table(blocks(source)[0].rows)["b"].to_pylist() == ["9" * 39]
    assert [str(one) for one in values(blocks(source))[0]] == ["9223372036854775808", "9" * 39, "1"]
