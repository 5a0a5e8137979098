"""The command line: `tidemill run`, `state` and so on. It says things; what is done is the verbs'.

Results go to stdout, progress and errors to stderr. INVARIANT: nothing but click is imported until a command runs,
and no value of a storage option is ever shown.
"""
