"""The page of a DAG in Airflow (`doc_md`): what it does, and the commands that show and repair its pipeline.

It is written from the arguments alone, because parsing a DAG file must not load the pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def page(name: str, arguments: Mapping[str, Any], dag_id: str, what: str) -> str:
    """Return the page of one DAG, as Markdown."""
    pipeline, root, branch = (arguments[key] for key in ("pipeline", "root", "branch"))
    call = f"{pipeline} --root {root}" + ("" if branch == "main" else f" --branch {branch}")
    return f"""\
`{dag_id}` {what}.

| | |
| --- | --- |
| pipeline | `{pipeline}` |
| repository | `{root}` |
| branch | `{branch}` |
| assets | `tidemill://{name}/SINK` for each sink, alias `tidemill:{name}` |
| its DAGs | tag `tidemill`, names that begin with `{name}` |

Commits are final. A cleared or repeated task resumes after them and recomputes nothing. Commands, in the folder of the
DAG file:

```sh
tidemill status {call}
tidemill log {call}
tidemill explain {call}
```
"""
