"""The state of a version: opening and storing it (`versions`), caches of opened runs (`cache`), tables (`table`).

`tm.StateMap` and `tm.StateStore` are here too. INVARIANT: no module here decides about a row; the Rust engine does.
"""
