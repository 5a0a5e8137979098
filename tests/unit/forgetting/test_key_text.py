"""Keys in text: what a row of quarantine or a message says of a key."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidemill.forgetting.key_text import key_in_row, mentions, names_key, possible_keys

TIME = datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a,alice,1", "alice"),
        ('{"k": "\\u0061lice"}', "alice"),
        ('{"k": "a\\/b"', "a/b"),
        ('{"k": "caf\\u00e9"', "café"),
        ('x;"say ""hi""";y', 'say "hi"'),
        ("1,0042,x", 42),
        ('{"k": 4.2e1}', 42),
        ("a,1.50", Decimal("1.5")),
        ("a,1e3", 1000.0),
        ("a,TRUE", True),
        ("2024-02-29T02:02:03+01:00", TIME),
        ("x 2024-02-29 01:02:03 y", TIME),
        ("x,2024-02-29", date(2024, 2, 29)),
        ("x,YWxpY2U=", b"alice"),
        ("x,616c696365", b"alice"),
    ],
)
def test_a_text_mentions_a_value_however_it_is_spelled(text: str, value: Any) -> None:
    assert mentions(text, [[value]])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (None, ["alice"]),
        ("", ["alice"]),
        ("bob", ["alice"]),
        ("alice", ["alice", 7]),
        ("alice", [None]),
        ("2024-02-29T01:02:03+01:00", [TIME]),
        ("not 2024-99-99T01:02:03", [TIME]),
    ],
)
def test_a_text_without_every_part_of_a_key_does_not_mention_it(text: str | None, key: list[Any]) -> None:
    assert not mentions(text, [key])


def test_a_part_that_is_null_matches_any_text() -> None:
    assert mentions("alice", [["alice", None]])


def test_a_message_names_a_key_only_by_whole_words() -> None:
    assert names_key("failed for key alice: 7", [["alice", 7]])
    assert not names_key("failed for key alice: 77", [["alice", 7]])
    assert not names_key("failed for malice: 7", [["alice", 7]])
    assert not names_key("anything", [[None]])


SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int32())])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"k": "a", "n": 1, "x": []}', {"k": "a", "n": 1}),
        ('{"k": null, "n": null}', {"k": None, "n": None}),
        ('{"k": "a"}', None),
        ('{"k": "a", "n": "one"}', None),
        ('{"k": "a", "n": 1.5}', None),
        ("[1]", None),
        ("a,1", None),
        (None, None),
    ],
)
def test_a_row_of_json_has_a_key_if_all_columns_are_there_and_fit(text: str | None, expected: Any) -> None:
    found = key_in_row(text, SCHEMA)
    assert (None if found is None else found.to_pylist()[0]) == expected


def test_binary_and_nested_keys_have_no_exact_form_in_json() -> None:
    assert key_in_row('{"k": "b\'a\'"}', pa.schema([pa.field("k", pa.binary())])) is None
    assert key_in_row('{"k": [1]}', pa.schema([pa.field("k", pa.list_(pa.int64()))])) is None


def test_the_fields_of_a_line_and_the_values_of_json_may_be_keys_of_one_column() -> None:
    one = pa.schema([pa.field("n", pa.int32())])
    assert {batch.column(0)[0].as_py() for batch in possible_keys('x; "7",8', one)} == {7, 8}
    assert {batch.column(0)[0].as_py() for batch in possible_keys('{"a": {"b": [9]}}', one)} == {9}
    assert list(possible_keys("7,8", SCHEMA)) == []
