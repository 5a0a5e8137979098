//! Gives any bytes to the reader of Parquet: it returns rows or an error, and neither panics nor allocates without bound.

#![no_main]

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tidemill_reader::columns::{ByName, Missing};
use tidemill_reader::parquet::ParquetFile;

fuzz_target!(init: tidemill_fuzz::own_panics_abort(), |data: &[u8]| {
    let Ok(file) = ParquetFile::open(Bytes::copy_from_slice(data), "UTC") else { return };
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("t", DataType::Utf8, true)]);
    let asked = Arc::new(schema.clone());
    let last = file.row_groups().len().max(1) - 1;
    let by = ByName::lenient(Missing::Null);
    let Ok(mut rows) = file.read(&schema, asked, &by, 0..=last, 100) else { return };
    for _ in 0..100 {
        match rows.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
});
