"""What a run read and wrote, as datasets of OpenLineage. Imported only when Airflow's OpenLineage provider asks.

INVARIANT: a dataset is a folder of a source or of a sink, named as OpenLineage names files: `s3://BUCKET` and the key,
or `file` and the path. So other tools that read or write the folder name it in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.generated.base import RunFacet
from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet


@attr.define
class TidemillRunFacet(RunFacet):
    """The place of a run in the history of its pipeline: `versions` are ranges, as in the XCom."""

    pipeline: str | None = None
    repository: str | None = None
    branch: str | None = None
    versions: list[list[int]] = attr.field(factory=list)
    head: int | None = None
    watermarks: dict[str, str] = attr.field(factory=dict)
    rows: int | None = None
    lateRows: int | None = None
    quarantinedRows: int | None = None
    quarantinedFiles: int | None = None


def lineage_of(xcom: Mapping[str, Any]) -> OperatorLineage[Any, Any]:
    """Return the lineage of a run, by its XCom. A run that committed nothing has a facet and no datasets.

    Inputs are the folders of all sources. They have statistics if there is one source, because commits count rows over
    all sources. Outputs are the sinks that the run changed.
    """
    facet = TidemillRunFacet(
        pipeline=xcom.get("pipeline"),
        repository=xcom.get("repository"),
        branch=xcom.get("branch"),
        head=xcom.get("head"),
        rows=xcom.get("rows"),
        versions=xcom.get("versions") or [],
        watermarks=xcom.get("watermarks") or {},
        lateRows=xcom.get("late_rows"),
        quarantinedRows=xcom.get("quarantined_rows"),
        quarantinedFiles=xcom.get("quarantined_files"),
    )
    sources = [uri for uri in (xcom.get("sources") or {}).values() if uri] if xcom.get("versions") else []
    counted: dict[str, Any] = {}
    if len(sources) == 1:
        counted["inputStatistics"] = InputStatisticsInputDatasetFacet(
            rowCount=xcom.get("rows"), fileCount=xcom.get("files"), size=xcom.get("bytes")
        )
    sinks = [one for one in (xcom.get("sinks") or {}).values() if one.get("path")]
    return OperatorLineage(
        inputs=[InputDataset(*dataset(uri), inputFacets=counted) for uri in sources],
        outputs=[
            OutputDataset(
                *dataset(one["path"]),
                outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=one.get("rows"))},
            )
            for one in sinks
        ],
        run_facets={"tidemill": facet},
    )


def dataset(uri: str) -> tuple[str, str]:
    """Return the namespace and the name of a folder: of `s3a://lake/in/`, they are `s3://lake` and `in`."""
    scheme, found, place = uri.partition("://")
    if not found or scheme == "file":
        return "file", uri.removeprefix("file://").rstrip("/") or "/"
    bucket, _, name = place.partition("/")
    return f"{'s3' if scheme == 's3a' else scheme}://{bucket}", name.rstrip("/") or "/"
