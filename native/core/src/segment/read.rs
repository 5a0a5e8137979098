//! Reading a run from the bytes of a segment. The bytes can be anything, so every claim is checked before it is
//! trusted.
//!
//! INVARIANT: memory for rows is allocated only after `updated_at`, which has no nulls, has shown that they exist.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Fields, SchemaRef};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use xxhash_rust::xxh3::xxh3_64;

use super::Verdict;
use super::decimals::check_digits;
use super::footer::{RowGroup, check_seal, parse};
use super::numbers::numbers;
use super::pages::{check_footer, check_pages};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::memory;
use crate::run::SortedRun;
use crate::schema::MapSchema;

/// "PAR1" at the head of the file.
const MAGIC_BYTES: usize = 4;
/// No valid file has more rows for each byte: rows are sorted by the hash of their key, which does not compress.
const KEYS_PER_BYTE: usize = 8;
/// The same limit for maps with sub-keys, because many rows of one key can follow each other.
const SUB_KEYS_PER_BYTE: usize = 1024;
/// Bytes for the hash of a row and its index.
const HASH_BYTES: usize = 16;
/// Rows decoded together when rows are only counted.
const COUNTED_ROWS: usize = 1 << 13;

/// Why a segment cannot be read.
enum Why {
    Damaged(String),
    /// Too little memory. The bytes may be fine.
    Lacking(usize),
}

impl From<String> for Why {
    fn from(why: String) -> Self {
        Self::Damaged(why)
    }
}

/// Read the run that the bytes of a segment hold. `CorruptState`, which names `name`, if they are not a valid segment;
/// `InvalidInput` if there is not enough memory for what they claim to hold.
pub fn read(schema: &Arc<MapSchema>, data: Bytes, name: &str) -> Result<SortedRun> {
    // The decoder is third-party code. If it panics, the bytes are treated as damaged, because no writer makes such
    // bytes.
    let verdict = catch_unwind(AssertUnwindSafe(|| decode(schema, data)));
    let verdict = verdict.unwrap_or_else(|_| Err("the Parquet decoder failed on it".to_owned().into()));
    let what = || format!("read segment `{name}` of state map `{}`", schema.name);
    verdict.map_err(|why| match why {
        Why::Damaged(why) => Error::CorruptState(format!(
            "cannot {}: {why}\n\
             hint: restore the object from a backup, or rewind to a version that does not need it",
            what()
        )),
        Why::Lacking(bytes) => memory::too_little(&what(), bytes),
    })
}

fn decode(schema: &Arc<MapSchema>, data: Bytes) -> std::result::Result<SortedRun, Why> {
    check_footer(&data)?;
    let columns = schema.columns();
    let metadata = open(&columns, &data)?;
    let entries = metadata.metadata().file_metadata().key_value_metadata();
    let groups = parse(schema, entries)?;
    let rows_per_byte = if schema.sub_key.is_empty() { KEYS_PER_BYTE } else { SUB_KEYS_PER_BYTE };
    let end = check_groups(&groups, &metadata, &data, rows_per_byte)?;
    check_seal(&data[end..], entries)?;
    let total = groups.iter().fold(0_usize, |total, group| total.saturating_add(group.rows));
    let bytes = check_pages(&data, metadata.metadata())?.saturating_add(total.saturating_mul(HASH_BYTES));
    memory::check_available("read", bytes).map_err(|_| Why::Lacking(bytes))?;
    let batch = rows(metadata, data, &groups, columns, schema.key_width() + schema.value.len())?;
    let run = sorted(schema, &batch)?;
    check_hash_bounds(&groups, run.hashes())?;
    Ok(run)
}

/// Return the metadata of a file, which must have `columns`.
fn open(columns: &SchemaRef, data: &Bytes) -> Verdict<ArrowReaderMetadata> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let found = ArrowReaderMetadata::load(data, options).map_err(not_parquet)?;
    if !same_columns(found.schema().fields(), columns.fields()) {
        let (found, expected) = (describe(found.schema().fields()), describe(columns.fields()));
        return Err(format!("it has the columns ({found}), expected ({expected})"));
    }
    Ok(found)
}

/// Check the row groups, and return where they end.
fn check_groups(
    groups: &[RowGroup],
    metadata: &ArrowReaderMetadata,
    data: &Bytes,
    rows_per_byte: usize,
) -> Verdict<usize> {
    let found = metadata.metadata().row_groups();
    if found.len() != groups.len() {
        return Err(format!("it has {} row groups, expected {}", found.len(), groups.len()));
    }
    let mut start = MAGIC_BYTES;
    for (number, (group, found)) in groups.iter().zip(found).enumerate() {
        if usize::try_from(found.num_rows()) != Ok(group.rows) {
            return Err(format!("row group {number} has {} rows, expected {}", found.num_rows(), group.rows));
        }
        let end = start.checked_add(group.bytes).filter(|&end| end <= data.len());
        let bytes = end.map(|end| &data[start..end]).ok_or_else(|| format!("row group {number} is truncated"))?;
        if xxh3_64(bytes) != group.checksum {
            return Err(format!("row group {number} does not match its checksum {:016x}", group.checksum));
        }
        if group.rows == 0 || group.rows / rows_per_byte > group.bytes {
            return Err(format!("row group {number} claims {} rows in {} bytes", group.rows, group.bytes));
        }
        start += group.bytes;
    }
    Ok(start)
}

/// Decode all columns of the file, which has `schema`; column `times` is `updated_at`. Numbers are decoded here, other
/// columns by the Parquet decoder.
fn rows(
    metadata: ArrowReaderMetadata,
    data: Bytes,
    groups: &[RowGroup],
    schema: SchemaRef,
    times: usize,
) -> Verdict<RecordBatch> {
    let total: usize = groups.iter().map(|group| group.rows).sum();
    let parquet = Arc::clone(metadata.metadata());
    let decoded = |root: usize| numbers(&data, &parquet, root, schema.field(root).data_type(), total);
    let mut columns: Vec<Option<ArrayRef>> = vec![None; schema.fields().len()];
    columns[times] = decoded(times).map_err(not_parquet)?;
    if columns[times].is_none() {
        check_rows(metadata.clone(), data.clone(), times, total)?;
    }
    for (root, column) in columns.iter_mut().enumerate().filter(|(_, column)| column.is_none()) {
        *column = decoded(root).map_err(not_parquet)?;
    }
    let left = columns.iter().enumerate().filter(|(_, column)| column.is_none()).map(|(root, _)| root);
    let left = ProjectionMask::roots(parquet.file_metadata().schema_descr(), left);
    let others = others(metadata, data, left, total)?;
    if others.num_rows() != total {
        return Err(format!("it holds {} rows, expected {total}", others.num_rows()));
    }
    let mut others = others.columns().iter();
    for (column, field) in columns.iter_mut().zip(schema.fields()).filter(|(column, _)| column.is_none()) {
        let found = others.next().ok_or("it has too few columns")?;
        *column = Some(checked(found, field).map_err(|error| format!("column `{}`: {error}", field.name()))?);
    }
    let columns = columns.into_iter().collect::<Option<Vec<_>>>().ok_or("it has too few columns")?;
    for (column, field) in columns.iter().zip(schema.fields()) {
        check_digits(column).map_err(|error| format!("column `{}`: {error}", field.name()))?;
    }
    RecordBatch::try_new(schema, columns).map_err(|error| error.to_string())
}

/// Return a column with the type of `field`. The file may have other names inside lists and maps.
fn checked(column: &ArrayRef, field: &Field) -> std::result::Result<ArrayRef, ArrowError> {
    if !column.data_type().is_nested() {
        return Ok(Arc::clone(column));
    }
    // A Parquet file may declare the keys of a map as nullable, but Arrow's readers trust that no key is null.
    column.to_data().validate_full()?;
    if column.data_type() == field.data_type() {
        return Ok(Arc::clone(column));
    }
    renamed(column.to_data(), field.data_type()).map(make_array)
}

/// Return `data` with the inner names of `expected`, which otherwise is the same type.
fn renamed(data: ArrayData, expected: &DataType) -> std::result::Result<ArrayData, ArrowError> {
    let inner: Vec<&DataType> = match expected {
        DataType::List(item) | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => return Ok(data),
    };
    let children = data.child_data().iter().cloned().zip(inner).map(|(child, expected)| renamed(child, expected));
    let children = children.collect::<std::result::Result<Vec<_>, _>>()?;
    data.into_builder().data_type(expected.clone()).child_data(children).build()
}

fn others(metadata: ArrowReaderMetadata, data: Bytes, columns: ProjectionMask, rows: usize) -> Verdict<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(data, metadata)
        .with_projection(columns)
        .with_batch_size(rows.max(1)) // everything in one batch, so that no copy is needed to join batches
        .build()
        .map_err(not_parquet)?;
    let schema = reader.schema();
    let batches = reader.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([only]) => Ok(only),
        Err(batches) => concat_batches(&schema, &batches).map_err(|error| error.to_string()),
    }
}

/// Check that the file has `rows` rows, by decoding column `root` without keeping it.
fn check_rows(metadata: ArrowReaderMetadata, data: Bytes, root: usize, rows: usize) -> Verdict<()> {
    let column = ProjectionMask::roots(metadata.metadata().file_metadata().schema_descr(), [root]);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(data, metadata)
        .with_projection(column)
        .with_batch_size(COUNTED_ROWS)
        .build()
        .map_err(not_parquet)?;
    let mut found = 0;
    for batch in reader {
        found += batch.map_err(|error| error.to_string())?.num_rows();
    }
    if found == rows { Ok(()) } else { Err(format!("it holds {found} rows, expected {rows}")) }
}

/// Return the run of `batch`, if its rows are valid rows of a run.
fn sorted(schema: &Arc<MapSchema>, batch: &RecordBatch) -> Verdict<SortedRun> {
    let [.., updated_at, deadline, deleted] = batch.columns() else {
        return Err("it has too few columns".into());
    };
    if updated_at.null_count() + deleted.null_count() > 0 {
        return Err("it has nulls in `updated_at` or `deleted`".into());
    }
    check_tombstones(deadline, deleted)?;
    let (key, rest) = batch.columns().split_at(schema.key.len());
    let (sub_key, rest) = rest.split_at(schema.sub_key.len());
    let keys = Keys::with_sub_keys(key, sub_key, batch.num_rows()).map_err(|error| error.to_string())?;
    let hashes = keys.hashes();
    let is_odd = |&row: &usize| hashes[row - 1] >= hashes[row] && keys.cmp_at(row - 1, &keys, row).is_ge();
    if let Some(row) = (1..keys.len()).find(is_odd) {
        return Err(format!("its rows are out of order: row {row} does not sort after the row before it"));
    }
    let columns: Vec<ArrayRef> = keys.columns().iter().chain(rest).cloned().collect();
    SortedRun::from_sorted(schema, keys, columns).map_err(|error| error.to_string())
}

fn check_tombstones(deadline: &ArrayRef, deleted: &ArrayRef) -> Verdict<()> {
    let deleted = deleted.as_boolean().values();
    let armed = match deadline.nulls() {
        Some(nulls) => (nulls.inner() & deleted).count_set_bits(),
        None => deleted.count_set_bits(),
    };
    if armed > 0 { Err(format!("{armed} of its tombstones have a deadline")) } else { Ok(()) }
}

fn check_hash_bounds(groups: &[RowGroup], hashes: &[u64]) -> Verdict<()> {
    let mut start = 0;
    for (number, group) in groups.iter().enumerate() {
        let end = start + group.rows;
        if (hashes[start], hashes[end - 1]) != (group.lo, group.hi) {
            let found = format!("{:016x}..{:016x}", hashes[start], hashes[end - 1]);
            return Err(format!(
                "row group {number} has the key hashes {found}, expected {:016x}..{:016x}",
                group.lo, group.hi
            ));
        }
        start = end;
    }
    Ok(())
}

/// Whether names and types match. Names inside lists and maps carry no meaning and may differ.
fn same_columns(found: &Fields, expected: &Fields) -> bool {
    let same = |(a, b): (&Arc<Field>, &Arc<Field>)| a.name() == b.name() && same_field(a, b);
    found.len() == expected.len() && found.iter().zip(expected).all(same)
}

fn same_field(found: &Field, expected: &Field) -> bool {
    found.is_nullable() == expected.is_nullable()
        && match (found.data_type(), expected.data_type()) {
            (DataType::List(found), DataType::List(expected)) => same_field(found, expected),
            (DataType::Struct(found), DataType::Struct(expected)) => same_columns(found, expected),
            (DataType::Map(found, _), DataType::Map(expected, _)) => match (found.data_type(), expected.data_type()) {
                (DataType::Struct(found), DataType::Struct(expected)) => {
                    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| same_field(a, b))
                }
                _ => false,
            },
            (found, expected) => found == expected,
        }
}

fn describe(fields: &Fields) -> String {
    let column = |field: &Arc<Field>| {
        let rule = if field.is_nullable() { "" } else { " not null" };
        format!("{}: {}{rule}", field.name(), field.data_type())
    };
    fields.iter().map(column).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` takes")]
fn not_parquet(error: ParquetError) -> String {
    format!("not a valid Tidemill segment: {error}")
}
