"""The state of a version: opening and storing it (`versions`), caches of opened runs (`cache`), tables (`table`).

INVARIANT: no module here decides about a row; the Rust engine does.
"""
