"""State of a version: which segments show which hashes (`versions`), opened runs in memory (`cache`), tables (`table`)."""
