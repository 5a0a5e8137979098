"""Sources: `files` finds files, `text` and `parquet` read them, `ledger` knows which were read, `steps` transform.

`contract` holds what the rest of Tidemill sees of a source. INVARIANT: no row is lost silently; it becomes a row, a
reject or an error.
"""
