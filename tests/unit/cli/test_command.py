"""The command line by itself: help, usage errors, what is imported. No pipeline is opened here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tidemill.actions.registry import ACTIONS, FLAG_OF, FOLLOWS, action_of, listed
from tidemill.cli import result_file
from tidemill.cli.exits import error_lines, exit_status
from tidemill.cli.main import MODULES, main, tidemill
from tidemill.cli.options import settings, storage_options
from tidemill.cli.output import committed
from tidemill.errors import ERROR_KINDS, Exit, Fenced, InvalidInput

SECRET = "wJalrXUtnFEMI"
TASKS = "--tasks expects `auto` or a whole number of at least 1, found"


def test_every_command_has_help(capsys):
    assert main(["--help"]) == Exit.DONE
    shown = re.findall(r"^  ([a-z]+)  ", capsys.readouterr().out.partition("Commands:")[2], re.MULTILINE)
    assert shown == tidemill.list_commands(click.Context(tidemill))
    assert {*MODULES, *FOLLOWS} == set(shown) and len(MODULES) + len(FOLLOWS) == len(shown)
    for name in shown:
        assert main([name, "--help"]) == Exit.DONE
        assert f"Usage: tidemill {name} " in capsys.readouterr().out


def test_an_action_is_listed_after_the_command_that_it_follows(monkeypatch):
    names = tidemill.list_commands(click.Context(tidemill))
    assert all(names.index(verb) > names.index(before) for verb, before in FOLLOWS.items())
    assert list(ACTIONS) == [*FOLLOWS, *FLAG_OF] and all(action_of(verb).verb == verb for verb in ACTIONS)
    assert not FLAG_OF.keys() & set(names) and set(FLAG_OF.values()) <= set(names)
    monkeypatch.setitem(FOLLOWS, "note", "untag")
    assert listed(MODULES) == [*names[: names.index("untag") + 1], "note", *names[names.index("untag") + 1 :]]


def test_a_command_imports_no_other_action():
    code = (
        "import sys\nfrom tidemill.cli.main import main\nmain([sys.argv[1], '--help'])\n"
        "print(sorted(name[17:] for name in sys.modules if name.startswith('tidemill.actions.')))"
    )
    for verb, expected in (("run", ["registry"]), ("tag", ["contract", "registry", "tag"]),
                           ("branch", ["branch", "contract", "drop_branch", "registry"])):  # fmt: skip
        found = subprocess.run([sys.executable, "-c", code, verb], capture_output=True, text=True, check=True)
        assert found.stdout.splitlines()[-1] == str(expected)


def test_replay_offers_no_batch_time_because_recorded_ones_are_repeated(capsys):
    for name, offers in (("run", True), ("sweep", True), ("replay", False)):
        assert main([name, "--help"]) == Exit.DONE
        assert ("--batch-time" in capsys.readouterr().out) is offers


def test_the_module_is_the_command(tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "tidemill", "--help"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "Usage: tidemill [OPTIONS] COMMAND" in found.stdout


def test_help_imports_no_slow_package():
    code = (
        "import sys\nfrom tidemill.cli.main import main\nmain(['run', '--help'])\n"
        "print(sorted({'duckdb', 'pyarrow', 'rich', 'pyspark', 'airflow', 'pandas', 'boto3'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum"], "unknown command `rum`; did you mean `run`?"),
        (["xyzzy"], "known: adopt, branch, branches, changes, check"),
        (["run", "m:p", "--rot", "x"], "Did you mean '--root'?"),
        (["run", "m:p"], "Missing option '--root'"),
        (["run", "m:p", "--root", "x", "--engine", "flink"], "'flink' is not one of 'auto', 'local', 'spark'"),
        (["run", "m:p", "--root", "x", "--tasks", "many"], f"{TASKS} `many`"),
        (["run", "m:p", "--root", "x", "--tasks", "²"], f"{TASKS} `²`"),
        (["run", "m:p", "--root", "x", "--tasks", "-3"], f"{TASKS} `-3`"),
        (["run", "m:p", "--root", "x", "--max-batches", "0"], "0 is not in the range"),
        (["run", "m:p", "--root", "x", "--conf", "novalue"], "--conf expects NAME=VALUE"),
        (["run", "m:p", "--root", "x", "--storage-option", "key=v"], "SECTION.KEY=VALUE"),
        (["demo", "--days", "366"], "366 is not in the range"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_expected(arguments, said, capsys, monkeypatch):
    monkeypatch.delenv("TIDEMILL_ROOT", raising=False)
    assert main(arguments) == Exit.USAGE
    found = capsys.readouterr()
    assert said in found.err
    assert found.out == ""


def test_an_invalid_pipeline_reference_is_an_invalid_input_error(capsys):
    assert main(["status", "nowhere.py:p", "--root", "x"]) == Exit.FAILED
    found = f"InvalidInput: pipeline reference 'nowhere.py:p': file `{Path('nowhere.py').resolve()}` does not exist"
    assert capsys.readouterr().err.startswith(found)


def test_storage_options_of_the_command_line_override_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("TIDEMILL_STORAGE_OPTIONS", json.dumps({"root": {"region_name": "a", "endpoint_url": "b"}}))
    assert storage_options(["root.region_name=x=y", "sink.k=v"]) == {
        "root": {"region_name": "x=y", "endpoint_url": "b"},
        "sink": {"k": "v"},
    }


def test_settings_of_the_command_line_override_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("TIDEMILL_CONF", json.dumps({"spark.a": "1", "spark.b": "2"}))
    assert settings(["spark.b=3", "spark.c=4"]) == {"spark.a": "1", "spark.b": "3", "spark.c": "4"}


@pytest.mark.parametrize("text", [f'{{"spark.a": ["{SECRET}"]}}', SECRET, f'["{SECRET}"]'])
def test_settings_of_the_environment_are_never_shown(text, monkeypatch, capsys):
    monkeypatch.setenv("TIDEMILL_CONF", text)
    assert main(["run", "m:p", "--root", "x"]) == Exit.USAGE
    found = capsys.readouterr()
    assert "TIDEMILL_CONF is not valid: expected JSON of the form" in found.err
    assert SECRET not in found.err + found.out


@pytest.mark.parametrize("text", [f'{{"root": "{SECRET}"}}', SECRET, f'["{SECRET}"]'])
def test_storage_options_of_the_environment_are_never_shown(text, monkeypatch, capsys):
    monkeypatch.setenv("TIDEMILL_STORAGE_OPTIONS", text)
    assert main(["run", "m:p", "--root", "x"]) == Exit.USAGE
    found = capsys.readouterr()
    assert "TIDEMILL_STORAGE_OPTIONS is not valid: expected JSON of the form" in found.err
    assert SECRET not in found.err + found.out


def test_storage_options_of_the_command_line_are_never_shown(capsys):
    for option in (SECRET, f"=.{SECRET}", f"root={SECRET}", f"roots.key={SECRET}"):
        assert main(["run", "m:p", "--root", "x", "--debug", "--storage-option", option]) != Exit.DONE
        found = capsys.readouterr()
        assert SECRET not in found.err + found.out


@pytest.mark.parametrize("kind", ERROR_KINDS.values())
def test_an_error_is_printed_with_its_kind_its_lines_and_its_hint(kind):
    error = kind("read `x`: not there\nmore of it", hint="make it")
    assert error_lines(error) == [f"{kind.__name__}: read `x`: not there", "more of it", "hint: make it"]
    assert exit_status(error) == (Exit.FENCED if kind is Fenced else Exit.FAILED)


def test_committed_versions_are_printed_as_ranges_without_versions_between_them():
    assert [committed(found) for found in ([], [4], [4, 5, 6], [0, 1, 23])] == [
        "committed nothing",
        "committed version 4",
        "committed versions 4–6",
        "committed versions 0–1, 23",
    ]


def test_a_result_file_is_written_whole_and_leaves_nothing_beside_it(tmp_path):
    for data in (b"one", b"two"):
        result_file.write_result_file(str(tmp_path / "result.json"), data, {})
    assert os.listdir(tmp_path) == ["result.json"]
    assert (tmp_path / "result.json").read_bytes() == b"two"


def test_a_result_file_can_be_written_to_and_removed_from_a_store(tmp_path):
    result_file.write_result_file(f"{(tmp_path / 'below').as_uri()}/result.json", b"{}", {})
    assert (tmp_path / "below" / "result.json").read_bytes() == b"{}"
    result_file.remove(f"{(tmp_path / 'below').as_uri()}/result.json", {})
    assert not (tmp_path / "below" / "result.json").exists()


def test_a_command_deletes_the_result_file_of_an_earlier_call_when_it_starts(tmp_path):
    (tmp_path / "result.json").write_text("old")
    code = (
        "import os, sys\nfrom tidemill.cli import main, run\n"
        "run.Target.open = lambda self: os._exit(9)\nsys.exit(main.main(sys.argv[1:]))"
    )
    command = ["run", "m:p", "--root", "x", "--result-file", str(tmp_path / "result.json")]
    assert subprocess.run([sys.executable, "-c", code, *command]).returncode == 9
    assert os.listdir(tmp_path) == []


def test_a_broken_result_file_is_invalid_input(tmp_path):
    with pytest.raises(InvalidInput, match="result file"):
        result_file.write_result_file(str(tmp_path / "no folder" / "result.json"), b"{}", {})


def test_a_result_file_that_cannot_be_written_is_an_error_before_the_work(tmp_path, capsys):
    command = ["run", "m:p", "--root", "x", "--result-file", str(tmp_path / "no folder" / "result.json")]
    assert main(command) == Exit.FAILED
    assert "cannot write the result file" in capsys.readouterr().err
