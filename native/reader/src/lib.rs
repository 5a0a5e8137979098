//! Reads files: from bytes of CSV, JSON and Parquet to Arrow rows, and to rejects for what is no row.
//!
//! The reader knows no Python, no store, no state and no clock: bytes, schemas and options are arguments.
//! INVARIANT: every record of a file is in exactly one row or in exactly one reject, whatever the sizes of buffers.
//! INVARIANT: only content rejects a record. A failure to read bytes is an error of its own and rejects nothing.

pub mod block;
pub mod columns;
pub mod csv;
pub mod error;
pub mod json;
pub mod parquet;
pub mod shown;
pub mod text;
pub mod time;
