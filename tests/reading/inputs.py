"""Odd files and odd values, which real Spark has read once (`make`) and Tidemill reads in `test_recorded`.

Values are written one a line, each with its number; the other inputs are a file each. INVARIANT: an input never changes
without its recording.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ZONE = "Europe/Berlin"
"""The time zone in which Spark and Tidemill read."""

NUMBERS = [
    "1", " 1", "1 ", "+1", "-1", "01", "007", "1.0", "1e2", "1E2", "1_0", "1,000", "0x10", "1d", "1f", "1D", ".5", "5.",
    "NaN", "nan", "Infinity", "-Infinity", "+Infinity", "Inf", "-Inf", "inf", "1e400", "1e-400", "-0", "0x1p3", "1.5",
    "2.675", "-0.005", "0.125", "123456789.12", "99999999.995", "1,234.5", "TRUE", "False", "yes", "T", " true",
    "true ", "", "\t1", "１", "--1", "+-1", "1e", "e1", "1e+2", "1.", "+.5", "127", "128", "-128", "-129", "32768",
    "2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "12345678901234567890123456789012345678", "0.1", "0.30000000000000004", "1e10", "1E-3", "a", "1a", "null",
]  # fmt: skip
TIMES = [
    "2024-01-01", "2024-1-5", "2024", "2024-01", "24-01-05", "2024-02-29", "2024-02-30", "2023-02-29", "epoch", "now",
    "today", "0001-01-01", "9999-12-31", "10000-01-01", "+2024-01-01", "-2024-01-01", "2024-01-05T10:00",
    "2024-01-05 10", "2024-01-05 10:", "2024-01-05 10:00:", "2024-01-05 junk", "2024-01-05T", "2024-01-05 ",
    "2024-01-05 10:00:00.", "2024-01-05 10:00:00.1", "2024-01-05 10:00:00.123456", "2024-01-05 10:00:00.1234567891",
    "2024-01-01 23:59:59.999999999", "2024-01-05 24:00:00", "2024-01-05 10:60:00", "2024-01-05 10:00:60",
    "2024-01-05 1:2:3", "2024-01-05 10:00:00Z", "2024-01-05 10:00:00+01:00", "2024-01-05 10:00:00+0100",
    "2024-01-05 10:00:00+01", "2024-01-05 10:00:00+1", "2024-01-05 10:00:00+1:0", "2024-01-05 10:00:00 +01:00",
    "2024-01-05 10:00:00UTC", "2024-01-05 10:00:00 UTC", "2024-01-05 10:00:00 Europe/Paris",
    "2024-01-05 10:00:00 UTC+1", "2024-01-05 10:00:00 GMT+01:00", "2024-01-05 10:00:00 CET",
    "2024-01-05 10:00:00+18:00", "2024-01-05 10:00:00+19:00", "2024-01-05Z", "2024-01-05T10:00:00.5Z",
    "2024-03-31 02:30:00", "2024-10-27 02:30:00", "1890-01-01 00:00:00", "  2024-01-05 10:00:00  ", "20240105",
    "2024/01/05", "2024-001-05", "2024-01-005", "2024-01-05 010:00:00", "2024-01-05t10:00:00",
    "2024-01-05 10:00:00z", "2024-01-05 10:00:00-00:00", "2024-01-05 10:00:00+01:00:30",
    "2024-01-05 10:00:00.123+01:00", "2024-01-05 10:00:00,123", "2024-13-01", "2024-00-01", "2024-01-00", "x",
]  # fmt: skip
_CSV_TYPES = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,18)", "boolean"]
_TIME_TYPES = ["date", "timestamp", "timestamp_ntz"]
CSV_VALUES = dict.fromkeys([*_CSV_TYPES, "string", "binary"], NUMBERS) | dict.fromkeys(_TIME_TYPES, TIMES)
"""Texts by the type of their column."""

TOKENS = [
    "1", "-1", "1.0", "1.10", "1e2", "1E400", "-0", "-0.0", "0.1", "12345678901234567.89", "128", "2147483648",
    "9223372036854775808", '"1"', '"1.5"', '"x"', '""', '" "', "true", "false", "null", '"true"', "[]", "[1]", "{}",
    '{"a":1}', '{"a": 1.10}', '[1, "b" ]', "NaN", "Infinity", "-Infinity", "+INF", "-INF", '"NaN"', '"Infinity"',
    '"-INF"', '"inf"', '"aGk="', '"a\\u00e9\\n"', '"\\ud83d\\ude00"', '"2024-01-05"', '"2024-01-05T10:00:00Z"',
    '"2024-01-05 10:00:00"', '"2024-02-30"', '"12345"', "12345", "1704448800", '"1,000.5"',
]  # fmt: skip
_JSON_TYPES = ["tinyint", "int", "bigint", "double", "decimal(10,2)", "boolean", "string", "binary", *_TIME_TYPES]
JSON_VALUES = dict.fromkeys([*_JSON_TYPES, "array<int>", "map<string,int>", "struct<a:double>"], TOKENS)


@dataclass(frozen=True)
class Input:
    """A file, its columns and the options with which it is read."""

    data: str
    schema: str
    options: dict[str, object] = field(default_factory=dict)


AB = "a string, b string"
_SPLITS = [
    '1, "p\n2,x\n3,q"\n4,z\n', '"a""b",c\n', '"a\\"b",c\n', '"a\\\\",c\n', '"a\\b",c\n', '"a"b,c\n', '"a" b,c\n',
    '"a" ,c\n', '"a""",c\n', '"""",c\n', '"a\\""b",c\n', '"a"\n', '"a","b","c"\n', '""," "\n', "  ,x\n", 'a\\"b,c\n',
    '"a\nb",c\n', '"\\\\"",c\n', '"a\\\\\\"b",c\n', '"a,b"x"c,d"\n', "a,b\rc,d\r", "a,b\r\nc,d\r\n", "a,b\n\n\nc,d\n",
    "a,b\n   \nc,d\n", "a,b", ",\n", ",,\n", "a\n", "\n", "", "\ufeffa,b\n", "a,b\n#c,d\n", 'a,"b\n', "a\0,b\n",
    "a,b,\n", "'a',b\n", "a;b\n", "a\tb\n", "ä,ö\n", '"ä","ö"\n', '"a,b',
]  # fmt: skip
CSV_FILES = {f"split-{number:02d}": Input(data, AB) for number, data in enumerate(_SPLITS)} | {
    "escape-is-quote": Input('"a""b",c\n"""",""\n"a"b,c\n"a\\"",b\n', AB, {"escape": '"'}),
    "no-quote": Input('"a",b\n"c,d\n', AB, {"quote": ""}),
    "single-quote": Input("'a,b',c\n\"d\",e\n", AB, {"quote": "'"}),
    "semicolon": Input('a;b\n"c;d";e\n', AB, {"sep": ";"}),
    "two-bars": Input('a||b\n"c||d"||e\nf|g||h\n', AB, {"sep": "||"}),
    "section-sign": Input("a§b\n", AB, {"sep": "§"}),
    "tab": Input('a\tb\n"c\td"\te\n', AB, {"sep": "\\t"}),
    "comment": Input("#x\na,b\n #y,z\n#\n", AB, {"comment": "#"}),
    "null-value": Input('NA,"NA"\n"",\nN,NAN\n', AB, {"nullValue": "NA"}),
    "empty-value": Input('"",\na,""\n', AB, {"emptyValue": "E"}),
    "empty-and-null-value": Input('"",E\na,N\n', AB, {"emptyValue": "E", "nullValue": "N"}),
    "leading-space": Input('  a, b\n "c d", e \n', AB, {"ignoreLeadingWhiteSpace": True}),
    "trailing-space": Input('a  , b \n"c d" ,e\t\n', AB, {"ignoreTrailingWhiteSpace": True}),
    "both-spaces": Input(' a ,\t"b" \n , \n', AB, {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True}),
    "line-separator": Input("a,b;c,d;", AB, {"lineSep": ";"}),
    "header": Input("a,b\n1,2\n", AB, {"header": True}),
    "header-alone": Input("a,b\n", AB, {"header": True}),
    "header-and-blank-lines": Input("\n\na,b\n1,2\n", AB, {"header": True}),
    "cr-header": Input("a,b\r1,x\r2,y\r", "a int, b string", {"header": True}),
    "date-format": Input("05.01.2024,x\n5.1.2024,y\n", "a date, b string", {"dateFormat": "dd.MM.yyyy"}),
    "date-format-compact": Input("20240105,x\n2024015,y\n", "a date, b string", {"dateFormat": "yyyyMMdd"}),
    "date-format-short-year": Input("24-01-05,x\n99-01-05,y\n", "a date, b string", {"dateFormat": "yy-MM-dd"}),
    "date-format-names": Input("5 Jan 2024,x\n5 jan 2024,y\n", "a date, b string", {"dateFormat": "d MMM yyyy"}),
    "timestamp-format": Input(
        "05.01.2024 10:00:00.5 +02:00,x\n05.01.2024 10:00:00.123456 Z,y\n", "a timestamp, b string",
        {"timestampFormat": "dd.MM.yyyy HH:mm:ss.SSSSSS XXX"},
    ),
    "timestamp-format-optional": Input(
        "2024-01-05,x\n2024-01-05 10:11,y\n2024-01-05 10:11:12,z\n", "a timestamp, b string",
        {"timestampFormat": "yyyy-MM-dd[ HH:mm[:ss]]"},
    ),
    "timestamp-format-half-day": Input(
        "1/5/2024 1:02 PM,x\n1/5/2024 12:02 AM,y\n1/5/2024 13:02 PM,z\n", "a timestamp, b string",
        {"timestampFormat": "M/d/yyyy h:mm a"},
    ),
    "timestamp-format-quoted": Input(
        "2024-01-05T10:00,x\n2024-01-05 10:00,y\n", "a timestamp, b string", {"timestampFormat": "yyyy-MM-dd'T'HH:mm"}
    ),
}  # fmt: skip
_LINES = [
    '{"a":1,"a":2}\n', '{"a":1}\n\n{"a":2}', '{"a":1}\r\n{"a":2}\r', '{"a":1}\r{"a":2}', "{}\n", '{"b":1}\n', "null\n",
    "1\n", '"x"\n', "[]\n", '[{"a":1},{"a":2}]\n', "{\n", '{"a":1\n', '{"a":1,}\n', '{"a" 1}\n', "{'a':1}\n", "{a:1}\n",
    '{"a":01}\n', '{"a":1}//x\n', '{"a":+1}\n', '{"a":.5}\n', '{"a":1.}\n', '{"A":1}\n', '{"\\u0061":1}\n',
    '{"a":1,"b":{"c":[1,{"d":null}]}}\n', '\ufeff{"a":1}\n', '  {"a":1}  \n', '{"b":"\\q","a":1}\n',
    '{"b":"\t","a":1}\n', '{"b":"\\ud800","a":1}\n', '{"a":nul}\n', '{"a":tru', "not json\n", '{"a":1}{"a":2}\n',
]  # fmt: skip
JSON_FILES = {f"line-{number:02d}": Input(data, "a int") for number, data in enumerate(_LINES)} | {
    "nested": Input(
        '{"s":{"p":1,"q":[{"r":"x"},{}]},"m":{"k":1,"n":null,"k":3}}\n{"s":{"q":[{"r":1}]}}\n{"s":[]}\n',
        "s struct<p:int,q:array<struct<r:string>>>, m map<string,int>",
    ),
    "comments": Input('/* x */{"a":1}\n{"a":/* y */2}//z\n', "a int", {"allowComments": True}),
    "unquoted-names": Input("{a:1}\n{a_b:1,a:2}\n", "a int", {"allowUnquotedFieldNames": True}),
    "no-single-quotes": Input("{'a':1}\n{\"a\":2}\n", "a int", {"allowSingleQuotes": False}),
    "leading-zeros": Input('{"a":01}\n{"a":-007}\n', "a int", {"allowNumericLeadingZeros": True}),
    "any-backslash": Input('{"b":"\\q","a":1}\n', "a int, b string", {"allowBackslashEscapingAnyCharacter": True}),
    "control-characters": Input('{"b":"x\ty","a":1}\n', "a int, b string", {"allowUnquotedControlChars": True}),
    "no-nan": Input('{"d":NaN}\n{"d":"NaN"}\n', "d double", {"allowNonNumericNumbers": False}),
    "many-lines": Input('[\n{"a":\n1},\n{"a":2}\n]\n', "a int", {"multiLine": True}),
    "one-object": Input('{\n"a": 1}\n', "a int", {"multiLine": True}),
    "empty-file": Input("", "a int"),
    "date-format": Input('{"a":"05.01.2024"}\n{"a":"x"}\n', "a date", {"dateFormat": "dd.MM.yyyy"}),
}  # fmt: skip
