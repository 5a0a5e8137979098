"""Everything without some keys: state, published files and quarantine written again, and traces that stay."""
