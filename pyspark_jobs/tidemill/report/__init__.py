"""The report of a pipeline: its data as plain values (`collect`, `data`), and the page that shows them (`page`).

`assets/` has the page's template, style and scripts, and the chart library. INVARIANT: everything that the page shows
is in the data, so the same scripts can show it elsewhere, from JSON.
"""
