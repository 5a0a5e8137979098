"""Options of `tm.Files` that have no effect, or contradict each other, are refused when a source is declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.sources.reading import blocks, file, rejects, values
from tidemill.errors import InvalidInput
from tidemill.sources.files import Files

NO_HEADER = "has no effect without a header: columns are matched by position"
BY_POSITION = "has no effect with enforceSchema=True: columns are matched by position"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "json", "missingColumns": "fail"}, "option `missingColumns` applies to csv and parquet, but this"),
        ({"format": "json", "sep": ","}, "option `sep` applies to csv, but this source has format json"),
        ({"format": "parquet", "encoding": "UTF-8"}, "option `encoding` applies to csv and json, but this source has"),
        ({"format": "json", "header": False}, "option `header` applies to csv, but this source has format json"),
        ({"delimiter": ";", "sep": "|"}, "options `delimiter` and `sep` are the same option, given twice"),
        (
            {"charset": "UTF-8", "encoding": "UTF-8"},
            "options `charset` and `encoding` are the same option, given twice",
        ),
        ({"missingColumns": "fail"}, f"option `missingColumns` {NO_HEADER}"),
        ({"header": "false", "extraColumns": "ignore"}, f"option `extraColumns` {NO_HEADER}"),
        ({"enforceSchema": True}, f"option `enforceSchema` {NO_HEADER}"),
        ({"header": True, "enforceSchema": "true", "missingColumns": "null"}, f"option `missingColumns` {BY_POSITION}"),
        ({"header": True, "enforceSchema": True, "extraColumns": "fail"}, f"option `extraColumns` {BY_POSITION}"),
        ({"quote": "", "escape": "\\"}, "option `escape` has no effect without quotes, and quote=''"),
        ({"format": "json", "multiLine": True, "lineSep": ";"}, "option `lineSep` has no effect with multiLine=True"),
        ({"sep": '"'}, "option `sep` is '\"', which is the same as `quote`"),
        ({"sep": "\\"}, "option `sep` is '\\\\', which is the same as `escape`"),
        ({"sep": "#", "comment": "#"}, "option `sep` is '#', which is the same as `comment`"),
        ({"sep": "||", "quote": "|"}, "option `sep` is '||', which shares a character with `quote`"),
        ({"comment": '"'}, "option `comment` is '\"', which is the same as `quote`"),
        ({"lineSep": ","}, "option `lineSep` is ',', which is the same as `sep`"),
        ({"lineSep": '"'}, "option `lineSep` is '\"', which is the same as `quote`"),
        ({"lineSep": ";|", "sep": "|"}, "option `lineSep` is ';|', which shares a character with `sep`"),
        ({"lineSep": "#", "comment": "#"}, "option `lineSep` is '#', which is the same as `comment`"),
    ],
)
def test_an_option_without_effect_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Files("x", **{"format": "csv", "schema": "a int", **options})
    assert message in str(caught.value)


def test_an_option_that_is_none_is_not_given() -> None:
    source = Files("x", format="csv", schema="a int", sep=None, delimiter=";", missingColumns=None)  # type: ignore[arg-type]
    assert repr(source) == "Files('x', format='csv', schema='a int', delimiter=';')"


def test_the_quote_may_be_the_escape_and_files_without_quotes_may_have_any_separator(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", 'x"\\y\n')
    source = Files(tmp_path, format="csv", schema="a string, b string", sep="\\", quote="", mode="PERMISSIVE")
    assert (values(blocks(source)), rejects(blocks(source))) == ([('x"', "y")], [])
    doubled = Files(tmp_path, format="csv", schema="a string", quote="'", escape="'", comment="#")
    assert values(blocks(doubled)) == [('x"\\y',)]


@pytest.mark.parametrize("again", ["!", "'", '"'])
def test_a_character_that_only_escapes_escapes_is_refused(again: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="charToEscapeQuoteEscaping"):
        Files(tmp_path, format="csv", schema="a string", charToEscapeQuoteEscaping=again)
