"""The fluent values that users write (`stream`), their compiled form (`job`), its interpreter (`flow`), and `load`."""
