//! Writing a run as Parquet: zstd level 1, numbers as byte streams, no dictionary, no statistics.

use std::io;

use arrow_array::{Array, ArrayRef, RecordBatch};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use xxhash_rust::xxh3::xxh3_64;

use super::ROW_GROUP_ROWS;
use super::decimals::check_digits;
use super::footer::{RowGroup, entries, seal};
use crate::error::{Error, Result};
use crate::memory::{self, MemoryWriter};
use crate::run::SortedRun;

const PAGE_BYTES: usize = 1 << 20;
/// "PAR1" at the head of the file.
const MAGIC_BYTES: usize = 4;

/// Encode `run` as a segment. The same run gives the same bytes.
pub fn write(run: &SortedRun) -> Result<Vec<u8>> {
    let batch = run.batch()?;
    let rows = batch.num_rows();
    memory::check_available(&format!("write {rows} rows as a segment"), group_bytes(&batch))?;
    encode(run, &batch).map_err(|error| match error {
        ParquetError::External(error) if is_lack(error.as_ref()) => {
            memory::too_little(&format!("write {rows} rows as a segment"), group_bytes(&batch))
        }
        error => Error::InternalError(format!("cannot write {rows} rows as a segment: {error}")),
    })
}

/// Return the most memory that the writer needs for one row group: its values, if they do not compress.
fn group_bytes(batch: &RecordBatch) -> usize {
    let starts = (0..batch.num_rows()).step_by(ROW_GROUP_ROWS);
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
    let group = |start| batch.slice(start, ROW_GROUP_ROWS.min(batch.num_rows() - start));
    let groups = starts.map(|start| group(start).columns().iter().map(bytes).fold(0_usize, usize::saturating_add));
    groups.max().unwrap_or(0)
}

fn is_lack(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

fn encode(run: &SortedRun, batch: &RecordBatch) -> std::result::Result<Vec<u8>, ParquetError> {
    for (column, field) in batch.columns().iter().zip(batch.schema_ref().fields()) {
        check_digits(column).map_err(|error| ParquetError::General(format!("column `{}`: {error}", field.name())))?;
    }
    let options = ArrowWriterOptions::new().with_properties(properties(batch)?).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(MemoryWriter(Vec::new()), batch.schema(), options)?;
    let mut groups = Vec::new();
    let mut written = MAGIC_BYTES;
    let hashes = run.hashes();
    for start in (0..batch.num_rows()).step_by(ROW_GROUP_ROWS) {
        let rows = ROW_GROUP_ROWS.min(batch.num_rows() - start);
        writer.write(&batch.slice(start, rows))?;
        writer.flush()?;
        writer.sync()?;
        let bytes = &writer.inner().0[written..];
        let (lo, hi) = (hashes[start], hashes[start + rows - 1]);
        groups.push(RowGroup { rows, bytes: bytes.len(), lo, hi, checksum: xxh3_64(bytes) });
        written += bytes.len();
    }
    for entry in entries(run.schema(), &groups) {
        writer.append_key_value_metadata(entry);
    }
    let MemoryWriter(mut data) = writer.into_inner()?;
    seal(&mut data[written..])
        .ok_or_else(|| ParquetError::General("the footer has no place for its checksum".into()))?;
    Ok(data)
}

fn properties(batch: &RecordBatch) -> std::result::Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by("tidemill version 1".into()) // not the crate's version, because bytes must not change with it
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_size_limit(PAGE_BYTES)
        .set_data_page_row_count_limit(ROW_GROUP_ROWS);
    let columns = ArrowSchemaConverter::new().convert(batch.schema_ref())?;
    for column in columns.columns() {
        if is_number(column.physical_type()) {
            properties = properties.set_column_encoding(column.path().clone(), Encoding::BYTE_STREAM_SPLIT);
        }
    }
    Ok(properties.build())
}

/// Whether every reader supports byte streams of this type. DuckDB and Polars refuse them for fixed-length byte arrays,
/// which hold long decimals.
fn is_number(physical: Type) -> bool {
    matches!(physical, Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE)
}
