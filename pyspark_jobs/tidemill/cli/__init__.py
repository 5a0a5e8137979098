"""The command line: `tidemill run`, `tidemill state` and so on. It parses options and prints; `verbs` does the work.

Results go to stdout, progress and errors to stderr. INVARIANT: only click is imported until a command runs, and no
message ever shows the value of a storage option.
"""
