"""Sources: which files there are (`files`), their rows and rejects (`decode`), which were taken (`ledger`), steps.

`contract` holds what the rest of Tidemill sees of a source. INVARIANT: no row is lost silently: it comes out as a
row, as a reject, or as an error.
"""
