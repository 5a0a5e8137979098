"""`status`, `state` and `outputs`: tables for people, JSON lines for machines."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.sales import objects, sold
from tidemill.cli import render
from tidemill.cli.main import main
from tidemill.errors import Exit
from tidemill.pipeline.load import load


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pipeline `sales.py` at version 1, and one file waiting."""
    return sold(tmp_path_factory.mktemp("sales"))


@pytest.fixture
def call(home: Path, capfd: pytest.CaptureFixture[str]):
    """Calls the command line on `sales.py`; gives exit status, stdout and stderr."""

    def run(verb: str, *options: str) -> tuple[int, str, str]:
        capfd.readouterr()
        return main([verb, f"{home / 'sales.py'}:p", "--root", str(home / "root"), *options]), *capfd.readouterr()

    return run


def test_numbers_are_printed_as_they_are_typed():
    columns = {"k": [12583.0, 0.5, None], "big": [1234567, 2, 3], "is": [True, False, None], "n": [-1, 2e300, 0.1]}
    shown = render.table_of(pa.table(columns))
    assert [[cell.plain for cell in column.cells] for column in shown.columns] == [
        ["12583", "0.5", "–"],
        ["1234567", "2", "3"],
        ["True", "False", "–"],
        ["-1", "2e+300", "0.1"],
    ]


def test_composite_keys_are_accepted_as_they_are_printed(tmp_path, capfd):
    """A user copies printed cells into `--key`: times, numbers and structs find their row again."""
    (tmp_path / "keys.py").write_text(
        "import tidemill as tm\n"
        "p = tm.Pipeline('keys', timeZone='Europe/Berlin')\n"
        f"files = tm.Files({str(tmp_path / 'in')!r}, format='json', schema='ts timestamp, id bigint, w decimal(9,2)')\n"
        "rows = p.read(files)\n"
        "rows.groupBy('ts', 'id', 'w').agg(n=tm.count(), name='plain')\n"
        "structs = rows.sql('SELECT struct_pack(a := ts, b := id) AS s FROM rows')\n"
        "structs.groupBy('s').agg(n=tm.count(), name='struct')\n"
        "others = rows.sql(\"SELECT MAP {'x': w} AS m, 'ab'::BLOB AS b, [ts, NULL] AS l, \"\n"
        '                  "NULL::STRING AS t, NULL::INT AS i, id > 0 AS f, ts::DATE AS d FROM rows")\n'
        "for name in 'mbltifd':\n"
        "    others.groupBy(name).agg(n=tm.count(), name=name)\n"
        "rows.sql(\"SELECT [MAP {1: 'ab'::BLOB}] AS a, NULL::INT AS i FROM rows\")"
        ".groupBy('a', 'i').agg(n=tm.count(), name='both')\n"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"ts": "2011-07-08T00:00:00.5Z", "id": 1234567, "w": 1234.5}\n')
    target = [f"{tmp_path / 'keys.py'}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == Exit.DONE
    assert main(["run", *target, "--engine", "local"]) == Exit.DONE
    struct = '{"a": "2011-07-08T00:00:00.500Z", "b": 1234567}'
    for operator, key, *printed_parts in (
        (
            "plain",
            '["2011-07-08T00:00:00.500Z", 1234567, 1234.50]',
            "2011-07-08T00:00:00.500Z",
            " 1234567 ",
            " 1234.50 ",
        ),
        ("struct", struct, struct),
        ("m", '[["x", "1234.50"]]', '[["x", "1234.50"]]'),
        ("b", "0x6162", "0x6162"),
        ("b", "ab"),
        ("l", '["2011-07-08T00:00:00.500Z", null]', '["2011-07-08T00:00:00.500Z", null]'),
        ("t", "–", " – "),
        ("i", "–", " – "),
        ("f", "True", " True "),
        ("d", "2011-07-08", " 2011-07-08 "),
        ("both", '[[[[1, "0x6162"]]], null]', '[[[1, "0x6162"]]]', " – "),
    ):
        capfd.readouterr()
        assert main(["state", *target, "--operator", operator]) == Exit.DONE
        printed = capfd.readouterr().out
        assert all(part in printed for part in printed_parts), printed
        assert main(["state", *target, "--operator", operator, "--key", key, "--json"]) == Exit.DONE
        assert len(capfd.readouterr().out.splitlines()) == 1, operator


def test_a_printed_dash_finds_null_and_the_text_of_a_dash(tmp_path, capfd):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k": null}\n{"k": "–"}\n{"k": "null"}\n')
    (tmp_path / "keys.py").write_text(
        "import tidemill as tm\np = tm.Pipeline('keys')\n"
        f"p.read(tm.Files({str(tmp_path / 'in')!r}, format='json', schema='k string'))"
        ".groupBy('k').agg(n=tm.count(), name='n')\n"
    )
    target = [f"{tmp_path / 'keys.py'}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == Exit.DONE
    assert main(["run", *target, "--engine", "local"]) == Exit.DONE
    found = {}
    for key in ("–", "null", "None"):
        capfd.readouterr()
        assert main(["state", *target, "--key", key, "--json"]) == Exit.DONE
        found[key] = {row.get("k") for row in objects(capfd.readouterr().out)}
    assert found == {"–": {None, "–"}, "null": {"null"}, "None": set()}


def test_a_binary_key_that_is_not_hexadecimal_is_refused(tmp_path, capfd):
    (tmp_path / "keys.py").write_text(
        "import tidemill as tm\np = tm.Pipeline('keys')\n"
        f"p.read(tm.Files({str(tmp_path)!r}, format='json', schema='k binary'))"
        ".groupBy('k').agg(n=tm.count(), name='n')\n"
    )
    target = [f"{tmp_path / 'keys.py'}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == Exit.DONE
    assert main(["state", *target, "--key", "0xabc"]) == Exit.FAILED
    assert "--key `0xabc` does not fit the key columns (k binary)" in capfd.readouterr().err


def test_reading_does_not_import_pandas(home):
    """Importing pandas takes longer than the rest of these commands."""
    target = [f"{home / 'sales.py'}:p", "--root", str(home / "root")]
    calls = [
        ["state", *target, "--operator", "by-item"],
        ["state", *target, "--operator", "by-item", "--key", '["Bonn", 1]'],
        ["outputs", *target, "--sink", "by-shop"],
        ["status", *target],
    ]
    program = (
        "import sys\nfrom tidemill.cli.main import main\n"
        f"found = [(main(call), 'pandas' in sys.modules) for call in {calls!r}]\n"
        "sys.exit(str(found))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == str([(int(Exit.DONE), False)] * 4)


def test_state_is_one_json_line_a_key_at_any_version(call):
    def sales(*options: str) -> dict[tuple[str, int], int]:
        _, out, _ = call("state", "--operator", "by-item", "--json", *options)
        return {(row["shop"], row["item"]): row["sales"] for row in objects(out)}

    assert sales() == {("Bonn", 1): 2, ("Bonn", 2): 1, ("Köln", 1): 1}
    assert sales("--version", "0") == {("Bonn", 1): 1, ("Bonn", 2): 1}
    assert sales("--version", "-1") == {}
    assert sales("--as-of", "1999") == {("Bonn", 1): 1, ("Bonn", 2): 1}
    assert sales("--where", "item = 2") == {("Bonn", 2): 1}
    assert len(sales("--limit", "1")) == 1
    assert sales("--key", '["Bonn", 1]', "--key", '["Köln", 1]') == {("Bonn", 1): 2, ("Köln", 1): 1}


def test_state_takes_keys_and_columns(call):
    _, out, _ = call("state", "--operator", "by-shop", "--json", "--key", "Köln", "--columns", "shop,sales")
    assert objects(out) == [{"shop": "Köln", "sales": 1}]


def test_json_lines_are_those_that_the_json_sink_writes(call):
    _, out, _ = call("outputs", "--sink", "by-shop", "--version", "1", "--json")
    assert {row["shop"]: row.get("last") for row in objects(out)} == {"Köln": "2013-01-02T10:00:00.000Z", "Bonn": None}
    _, out, _ = call("outputs", "--sink", "by-item", "--version", "0", "--json")
    assert '"turnover":1.50,' in out


def test_outputs_are_those_of_one_version_or_of_all(call):
    _, out, _ = call("outputs", "--sink", "by-shop", "--json")
    assert [row["_batch_id"] for row in objects(out)] == [0, 1, 1]
    _, out, _ = call("outputs", "--sink", "by-shop", "--version", "0", "--json")
    assert [row["_batch_id"] for row in objects(out)] == [0]


def test_a_table_says_when_it_does_not_show_all(call):
    status, out, _ = call("state", "--operator", "by-item", "--limit", "2")
    assert status == Exit.DONE
    assert "2 of 3 rows; --limit shows more" in out
    _, out, _ = call("state", "--operator", "by-item", "--where", "false")
    assert "no rows" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--operator", "by-shp"], "unknown operator `by-shp`; did you mean `by-shop`?"),
        ([], "add operator=… or --operator: `by-item`, `by-shop`"),
        (
            ["--operator", "by-item", "--key", "Bonn"],
            "`Bonn` does not fit the key columns (shop string, item int",
        ),
        (["--operator", "by-item", "--key", '["Bonn", "x"]'], "does not fit the key columns"),
        (["--operator", "by-item", "--where", "nonsense = 1"], "where='nonsense = 1' is not a valid condition"),
        (["--operator", "by-item", "--version", "7"], "7"),
        (["--operator", "by-item", "--columns", "shp"], "`shp`"),
        (["--operator", "by-item", "--as-of", "soon"], "soon"),
    ],
)
def test_invalid_options_are_an_invalid_input_error(call, options, said):
    status, out, err = call("state", *options)
    assert (status, out) == (Exit.FAILED, "")
    assert err.startswith("InvalidInput: ")
    assert said in err


def test_cells_are_shown_apart_and_not_interpreted():
    time = datetime(2013, 1, 2, 3, 4, 5, tzinfo=UTC)
    values = [None, 1234567, 1.5, 1e300, Decimal("1234.50"), True, "[red]x[/red]", [1, 2], time,
              time.replace(microsecond=250_000), date(2013, 1, 2)]  # fmt: skip
    assert [render.cell(value).plain for value in values] == [
        "–", "1234567", "1.5", "1e+300", "1234.50", "True", "[red]x[/red]", "[1, 2]",
        "2013-01-02T03:04:05Z", "2013-01-02T03:04:05.250Z", "2013-01-02",
    ]  # fmt: skip


def test_a_table_outside_a_terminal_is_never_cut(capsys):
    wide = pa.table({f"column_{number}": ["x" * 40] for number in range(20)})
    render.console().print(render.table_of(wide))
    header, _, row = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert "column_19" in header
    assert row.split() == ["x" * 40] * 20


def test_times_that_python_does_not_know_are_shown(capsys):
    far = pa.table({"at": pa.array([2**61, None, 0], pa.timestamp("us", "UTC")), "n": [1, 2, 3]})
    render.console().print(render.table_of(far))
    _, _, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert rows == [["75039-04-04T19:00:13.693952Z", "1"], ["–", "2"], ["1970-01-01T00:00:00.000Z", "3"]]


def test_as_of_is_in_the_zone_of_the_pipeline_as_batch_time_and_python_are(tmp_path, capfd):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("Bonn\n")
    (tmp_path / "zone.py").write_text(
        "import tidemill as tm\nfrom pathlib import Path\n"
        "p = tm.Pipeline('zone', timeZone='America/New_York')\n"
        "p.read(tm.Files(str(Path(__file__).parent / 'in'), format='csv', schema='shop string'))"
        ".groupBy('shop').agg(n=tm.count(), name='n')\n"
    )
    target = [f"{tmp_path / 'zone.py'}:p", "--root", str(tmp_path / "root")]
    assert main(["init", *target]) == Exit.DONE
    assert main(["run", *target, "--engine", "local", "--batch-time", "2013-01-01T12:00:00"]) == Exit.DONE
    found = {}
    for as_of in ("2013-01-01T12:00:00", "2013-01-01T17:00:00Z", "1357059600000", "2013-01-01T16:59:59Z"):
        capfd.readouterr()
        status = main(["state", *target, "--json", "--as-of", as_of])
        printed = capfd.readouterr().out
        found[as_of] = (status, printed.count('"shop"'))
    assert list(found.values()) == [(Exit.DONE, 1)] * 3 + [(Exit.FAILED, 0)]
    loaded = tm.open(load(target[0]), target[2])
    assert loaded.state(as_of="2013-01-01T12:00:00").num_rows == 1
