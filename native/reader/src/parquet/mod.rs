//! Parquet: row groups of a file as Arrow rows in the columns of a schema.
