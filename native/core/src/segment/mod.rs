//! Segments: sorted runs as Parquet bytes. Where they lie is Python's business.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::run::SortedRun;
use crate::schema::MapSchema;

/// `run` as a segment.
pub fn write(_run: &SortedRun) -> Result<Vec<u8>> {
    Err(Error::InternalError("not yet".into()))
}

/// The run that a segment's bytes hold; `CorruptState` naming `name` for anything else.
pub fn read(_schema: &Arc<MapSchema>, _data: Bytes, _name: &str) -> Result<SortedRun> {
    Err(Error::InternalError("not yet".into()))
}
