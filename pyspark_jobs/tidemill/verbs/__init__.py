"""One verb, one file: what a repository can be asked to do. Each is a function of a `driver.context.Context`."""
