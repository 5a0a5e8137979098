"""From the options of `Files` to the format of its text files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidInput
from .columns_by_name import ColumnsByName
from .options import check_dialect
from .text_format import CsvFormat, Formats, JsonFormat, TextFormat


def text_format(kind: str, values: Mapping[str, Any]) -> TextFormat | None:
    """Return the format of text files, or None for Parquet."""
    formats = Formats(values["dateFormat"], values["timestampFormat"], values["timestampNTZFormat"])
    if kind == "csv":
        return _csv_format(values, formats)
    return _json_format(values, formats) if kind == "json" else None


def _csv_format(values: Mapping[str, Any], formats: Formats) -> CsvFormat:
    quote, escape, again = values["quote"], values["escape"], values["charToEscapeQuoteEscaping"]
    check_dialect(values["sep"], quote, escape, values["comment"], values["lineSep"])
    if again not in (None, "", escape):
        raise InvalidInput(
            f"option `charToEscapeQuoteEscaping` is {again!r}, expected the escape, {escape!r}, or an empty text",
            hint="other characters make Spark drop text",
        )
    matching = "name" if not values["enforceSchema"] else "position"
    return CsvFormat(
        separator=values["sep"],
        quote=quote,
        escape=escape,
        escape_escape=again if again is not None else escape if escape != quote else "",
        comment=values["comment"],
        null_value=values["nullValue"],
        empty_value=values["emptyValue"],
        trim_leading=values["ignoreLeadingWhiteSpace"],
        trim_trailing=values["ignoreTrailingWhiteSpace"],
        line_end=values["lineSep"],
        encoding=values["encoding"],
        matching=matching if values["header"] else "none",
        columns=ColumnsByName(values["extraColumns"], values["missingColumns"]),
        formats=formats,
    )


def _json_format(values: Mapping[str, Any], formats: Formats) -> JsonFormat:
    return JsonFormat(
        multi_line=values["multiLine"],
        comments=values["allowComments"],
        unquoted_names=values["allowUnquotedFieldNames"],
        single_quotes=values["allowSingleQuotes"],
        leading_zeros=values["allowNumericLeadingZeros"],
        any_backslash=values["allowBackslashEscapingAnyCharacter"],
        unquoted_control=values["allowUnquotedControlChars"],
        non_numeric=values["allowNonNumericNumbers"],
        line_end=values["lineSep"],
        encoding=values["encoding"],
        formats=formats,
    )
