"""A process that read outputs ends as it should: nothing that it used takes it down on the way out."""

from __future__ import annotations

import subprocess
import sys

# Arrow's decoding threads release the bytes after they have returned the result. If Python owns the bytes and is
# ending, this calls `std::terminate`, in one of sixty processes. So there must be no such threads.
READ = """
import os
import pyarrow as pa
from tidemill.sinks.files import Parquet
from tidemill.sinks.forms import unstaged

schema = pa.schema({"key": pa.int64(), "name": pa.string(), "at": pa.timestamp("us")})
rows = pa.table({"key": [1, 2], "name": ["a", "b"], "at": [0, 1]}, schema=schema)
sink = Parquet("/nowhere")
files = [(file.data, file.suffix) for file in sink.stage(rows)]
threads = len(os.listdir("/proc/self/task"))
assert unstaged(files, schema, ".parquet", "a test").equals(rows)
print(len(os.listdir("/proc/self/task")) - threads)
"""


def test_parquet_outputs_are_decoded_without_threads_of_arrow() -> None:
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
