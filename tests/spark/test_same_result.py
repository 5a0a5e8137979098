"""local = Spark = Connect, floats to the last bit, for 1, 2 and 7 tasks and for two stages."""

from __future__ import annotations

import pytest

from tests.model import same_result

pytestmark = pytest.mark.servers("start Spark", seconds=80)


@pytest.mark.parametrize("tasks", [1, 2, 7])
@pytest.mark.parametrize("session", ["spark_session", "connect_session"])
def test_engines_agree(request, tmp_path, session, tasks):
    (tmp_path / "data").mkdir()
    folder = same_result.make_files(tmp_path / "data")
    local = same_result.result(folder, f"{tmp_path}/local", "local", 2)
    spark = request.getfixturevalue(session)
    other = same_result.result(folder, f"{tmp_path}/other", "spark", tasks, spark=spark)
    same_result.same(local, other)


def test_too_little_memory_for_all_ranges_changes_no_result(spark_session, tmp_path):
    (tmp_path / "data").mkdir()
    folder = same_result.make_files(tmp_path / "data")
    local = same_result.result(folder, f"{tmp_path}/local", "local", 2)
    little = same_result.LITTLE_MEMORY
    other = same_result.result(folder, f"{tmp_path}/other", "spark", "auto", spark=spark_session, conf=little)
    same_result.same(local, other)
