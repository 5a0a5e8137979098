"""State maps without a pipeline: `tm.StateMap` in memory and in files, `tm.StateStore` with versions below a root.

Batches use neither. INVARIANT: no module here decides about a row; the Rust engine does.
"""
