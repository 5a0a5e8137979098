"""What a repository says without a write: state, outputs, history, differences, status."""
