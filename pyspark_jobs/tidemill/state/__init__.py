"""State of a version: which segments show which hashes (`versions`), opened runs (`cache`), tables (`table`)."""
