//! Parquet files.
