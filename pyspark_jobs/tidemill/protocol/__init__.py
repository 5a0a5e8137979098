"""The protocol: the records of a repository, the log that stores them, and the decisions over them.

No rows and no state here. INVARIANT: decisions are pure functions. Only `log` and `hint` read and write, through a
`Store`.
"""
