"""A repository that is opened: what is open, and what every verb asks first: who it is, its versions, its code."""
