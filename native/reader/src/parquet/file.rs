//! An open file: its row groups, its columns, and its rows in batches.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use super::claims;
use super::convert::columns;
use super::fit::{Chosen, IN_DAYS, choose, type_name};
use super::old_calendar::OldCalendar;
use super::pages::{Bounded, Groups};
use crate::columns::ByName;
use crate::error::{External, ReadError, Result, Unreadable};
use crate::shown::short;

/// Types that are nested deeper are refused before any recursion.
pub(super) const MAX_DEPTH: usize = 64;

/// A Parquet file that is open.
pub struct ParquetFile<R> {
    reader: R,
    metadata: ArrowReaderMetadata,
    calendar: OldCalendar,
}

impl<R: ChunkReader + Clone + 'static> ParquetFile<R> {
    /// Open a file and read its footer. Times that Spark 2 wrote were written in `time_zone`.
    pub fn open(reader: R, time_zone: &str) -> Result<Self> {
        let metadata = guarded(|| load(&reader))?;
        let pairs = metadata.metadata().file_metadata().key_value_metadata();
        let calendar = OldCalendar::of(pairs.map_or(&[], Vec::as_slice), time_zone);
        Ok(Self { reader, metadata, calendar })
    }

    /// The number of rows and of compressed bytes of each row group.
    #[must_use]
    pub fn row_groups(&self) -> Vec<(u64, u64)> {
        let sizes = |group: &parquet::file::metadata::RowGroupMetaData| {
            (u64::try_from(group.num_rows()).unwrap_or(0), u64::try_from(group.compressed_size()).unwrap_or(0))
        };
        self.metadata.metadata().row_groups().iter().map(sizes).collect()
    }

    /// The names of the columns, and their types for messages.
    #[must_use]
    pub fn schema(&self) -> Vec<(String, String)> {
        let named = |field: &Arc<Field>| (field.name().clone(), type_name(field.data_type()));
        self.metadata.schema().fields().iter().map(named).collect()
    }

    /// Return the rows of row groups in the columns `asked`, in batches of at most `batch_rows` rows.
    ///
    /// The file must have the columns of `schema`, of which those are some, and which are matched as `by` says.
    pub fn read(
        &self,
        schema: &Schema,
        asked: SchemaRef,
        by: &ByName,
        groups: RangeInclusive<usize>,
        batch_rows: usize,
    ) -> Result<Rows> {
        let chosen = choose(self.metadata.schema(), schema, &asked, by)?;
        let descriptor = self.metadata.metadata().file_metadata().schema_descr();
        let groups: Vec<usize> = groups.filter(|group| *group < self.metadata.metadata().num_row_groups()).collect();
        let leaves = chosen.leaves.iter().copied();
        let mask = ProjectionMask::leaves(descriptor, leaves);
        let reader = Arc::new(Bounded(self.reader.clone()));
        let groups = Groups { reader, metadata: Arc::clone(self.metadata.metadata()), groups };
        let left = groups.num_rows();
        let reader = guarded(|| {
            let fields = Some(self.metadata.schema().fields());
            let levels = parquet_to_arrow_field_levels(descriptor, mask, fields).map_err(failed)?;
            let batch_rows = batch_rows.clamp(1, left.max(1));
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, batch_rows, None).map_err(failed)
        })?;
        Ok(Rows { reader, schema: asked, chosen, calendar: self.calendar.clone(), left, is_done: false })
    }
}

/// Batches of rows of a file.
pub struct Rows {
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    chosen: Chosen,
    calendar: OldCalendar,
    /// The rows that the footer claims and that were not read yet.
    left: usize,
    is_done: bool,
}

impl Rows {
    /// Return the next rows, or `None` at the end. After an error there are no more rows.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.is_done {
            return Ok(None);
        }
        let reader = &mut self.reader;
        let read = guarded(|| match reader.next() {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(failed(ParquetError::from(error))),
        });
        self.is_done = !matches!(read, Ok(Some(_)));
        let batch = read?;
        let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
        if rows > self.left || (batch.is_none() && self.left > 0) {
            self.is_done = true;
            return Err(invalid("its columns do not have as many rows as its row groups"));
        }
        self.left -= rows;
        let Some(batch) = batch else { return Ok(None) };
        columns(&batch, &self.schema, &self.chosen, &self.calendar).map(Some)
    }
}

/// Read the footer. The error for a file without one names its first or last bytes.
fn load<R: ChunkReader>(reader: &R) -> Result<ArrowReaderMetadata> {
    load_footer(reader).map_err(|error| match (error, no_parquet(reader)) {
        (ReadError::Content(_), Ok(Some(why))) => invalid(&why),
        (ReadError::Content(_), Err(failed)) => failed,
        (error, _) => error,
    })
}

/// Return why the first and the last bytes of a file are not those of Parquet, or `None` if they are.
fn no_parquet<R: ChunkReader>(reader: &R) -> Result<Option<String>> {
    let size = reader.len();
    if size < LEAST_BYTES {
        return Ok(Some(if size == 0 {
            "the file is empty".into()
        } else {
            format!("the file has only {size} bytes")
        }));
    }
    let first = reader.get_bytes(0, 4).map_err(failed)?;
    let last = reader.get_bytes(size - 4, 4).map_err(failed)?;
    let is_magic = |bytes: &[u8]| matches!(bytes, b"PAR1" | b"PARE");
    let shown = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    Ok(if !is_magic(&first) {
        Some(format!("the file begins with the bytes {} (`{}`), expected PAR1", shown(&first), short(&first)))
    } else if !is_magic(&last) {
        Some(format!(
            "the file ends with the bytes {}, expected PAR1: it was cut off, or is still being written",
            shown(&last)
        ))
    } else {
        None
    })
}

/// Read the footer. Times in 96 bits are read as microseconds, which have room for all years.
fn load_footer<R: ChunkReader>(reader: &R) -> Result<ArrowReaderMetadata> {
    let footer = claims::footer(reader).map_err(failed)?;
    if let Some(why) = footer.why {
        return Err(invalid(&why));
    }
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let found = ArrowReaderMetadata::load(reader, options).map_err(|error| match failed(error) {
        ReadError::Content(_) if footer.is_encrypted => encrypted().into(),
        other => other,
    })?;
    let descriptor = found.metadata().file_metadata().schema_descr();
    let wide: Vec<bool> =
        descriptor.columns().iter().map(|column| column.physical_type() == PhysicalType::INT96).collect();
    if !wide.contains(&true) {
        return Ok(found);
    }
    let mut leaf = 0;
    let fields: Vec<Arc<Field>> =
        found.schema().fields().iter().map(|field| in_micros(field, &wide, &mut leaf)).collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), options).map_err(failed)
}

/// Return a field whose times in 96 bits are timestamps in µs. `leaf` is the number of leaf columns before it.
fn in_micros(field: &Arc<Field>, wide: &[bool], leaf: &mut usize) -> Arc<Field> {
    let kind = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|one| in_micros(one, wide, leaf)).collect()),
        DataType::List(item) => DataType::List(in_micros(item, wide, leaf)),
        DataType::Map(entries, sorted) => DataType::Map(in_micros(entries, wide, leaf), *sorted),
        other => {
            *leaf += 1;
            let is_wide = wide.get(*leaf - 1).copied().unwrap_or(false);
            if is_wide { DataType::Timestamp(TimeUnit::Microsecond, Some(IN_DAYS.into())) } else { other.clone() }
        }
    };
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// The marks at both ends, and the length of the footer.
const LEAST_BYTES: u64 = 12;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Call the Parquet library. If it panics, the file is damaged, because no writer makes such bytes. Its panics are not
/// printed.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_library = panic.location().is_some_and(|place| place.file().contains("/registry/"));
            if !(is_library && IS_GUARDED.get()) {
                print(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    let called = catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(false);
    called.unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(invalid(why.unwrap_or("its decoder failed")))
    })
}

/// Return the error for one of the library. An error of the file itself comes out as it went in.
fn failed(error: ParquetError) -> ReadError {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => ReadError::from(*error),
            Err(inner) => match inner.downcast::<External>() {
                Ok(external) => ReadError::from(std::io::Error::other(*external)),
                Err(inner) => match inner.downcast::<ParquetError>() {
                    Ok(error) => failed(*error),
                    Err(other) => invalid(&other.to_string()),
                },
            },
        },
        other => invalid(&other.to_string()),
    }
}

fn encrypted() -> Unreadable {
    Unreadable::file("columns of the file are encrypted, and what describes them is, too")
        .with_hint("decrypt the file before it is read; Tidemill has no keys")
}

fn invalid(why: &str) -> ReadError {
    let mut why = why.trim_end_matches('.');
    while let Some(rest) =
        ["Parquet argument error: ", "Parquet error: "].iter().find_map(|name| why.strip_prefix(name))
    {
        why = rest;
    }
    Unreadable::file(format!("not a valid Parquet file: {}", short(why.as_bytes()))).into()
}
