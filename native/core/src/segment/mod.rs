//! Segments: sorted runs as Parquet bytes.
