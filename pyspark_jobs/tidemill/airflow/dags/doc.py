"""The page of a DAG in Airflow (`doc_md`): what it does, and the commands that show and repair its pipeline.

It is written from the arguments alone, because parsing a DAG file must not load the pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def dag_page(name: str, arguments: Mapping[str, Any], dag_id: str, what: str, *, others: Mapping[str, bool]) -> str:
    """Return the page of one DAG, as Markdown. `others` says whether there are the DAGs `NAME__replay` and so on."""
    pipeline, root, branch = (arguments[key] for key in ("pipeline", "root", "branch"))
    call = f"{pipeline} --root {root}" + ("" if branch == "main" else f" --branch {branch}")
    again = f"`{name}__replay`" if others["replay"] else "`tidemill replay`"
    undo = f"`{name}__correct`" if others["correct"] else "`tidemill rewind`, `skip`, `replan` or `reset`"
    return f"""\
`{dag_id}` {what}.

| | |
| --- | --- |
| pipeline | `{pipeline}` |
| repository | `{root}` |
| branch | `{branch}` |
| assets | `tidemill://{name}/SINK` for each sink, alias `tidemill:{name}` |
| its DAGs | tag `tidemill`, names that begin with `{name}` |
| its graph | `tidemill explain`, and the log of each task `run` of `{name}` |

Commits are final. A cleared or repeated task resumes after them and recomputes nothing. The DAG refuses Airflow's
backfills, because the input of a run does not depend on its date. To recompute the past, use {again}. To undo
versions or get past a file that cannot be read, use {undo}.

Commands, in the folder of the DAG file:

```sh
tidemill status {call}
tidemill log {call}
tidemill explain {call}
```
"""
