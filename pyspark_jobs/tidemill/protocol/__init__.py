"""The protocol: records, the log that keeps them, and the decisions over them.

No rows and no state here, only what is planned, committed and read back. INVARIANT: a decision is a pure function of
what was observed; `log` alone reads and writes, through a `Store`.
"""
