"""The verbs of a repository, one file for each. A verb is a function of a `driver.context.Context`.

`Repository` and the command line call them; a verb never prints.
"""
