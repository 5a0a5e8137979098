"""Which schema fits some files: `schema_of` and `tidemill schema`."""
