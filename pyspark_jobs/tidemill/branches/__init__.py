"""Lines of versions: branches, replays on them, comparing with them, promotions."""
