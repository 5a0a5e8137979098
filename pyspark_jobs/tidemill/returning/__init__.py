"""Rows in quarantine that come back: exported, corrected, and given to the operators that did not take them."""
