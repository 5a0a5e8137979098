"""Where rows go: how a sink writes them (`files`), and how committed files become visible (`publish`)."""
