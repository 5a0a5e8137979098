//! Writing a cached run. CRASH: a crash can leave a torn file; its reader detects that.

use std::io::{Error, Result, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use xxhash_rust::xxh3::Xxh3;

use super::{ALIGNMENT, FORMAT, HASH, MAGIC};
use crate::memory;
use crate::run::{SortedRun, Whole};

/// Write the rows that `run` shows. `key` identifies the file: it is the checksum of the segment.
pub fn write(run: &SortedRun, key: &str, to: impl Write) -> Result<()> {
    let run = run.whole().map_err(Error::other)?;
    // Arrow's writer builds the whole batch in memory, in buffers that grow to up to twice its size.
    memory::check_available("keep a run on disk", run.run().nbytes().saturating_mul(2)).map_err(Error::other)?;
    let mut to = Hashed { to, hash: Xxh3::new(), bytes: 0 };
    write_columns(&run, &mut to).map_err(Error::other)?;
    let ipc_bytes = to.bytes as u64;
    let (numbers, starts, by_deadline) = run.index_parts();
    for part in [starts, by_deadline] {
        to.align()?;
        to.write_all(part.inner().as_slice())?;
    }
    to.align()?;
    let mut words = vec![FORMAT, run.run().len() as u64, ipc_bytes];
    words.extend(numbers);
    words.extend([starts.len() as u64, by_deadline.len() as u64]);
    for word in &words {
        to.write_all(&word.to_le_bytes())?;
    }
    to.write_all(&(words.len() as u64).to_le_bytes())?;
    to.hash.update(key.as_bytes()); // a file under another name fails its checksum
    let checksum = to.hash.digest();
    to.to.write_all(&checksum.to_le_bytes())?;
    to.to.write_all(MAGIC)?;
    to.to.flush()
}

fn write_columns(run: &Whole<'_>, to: &mut impl Write) -> std::result::Result<(), ArrowError> {
    let run = run.run();
    let mut fields: Vec<_> = run.schema().columns().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(HASH, DataType::UInt64, false)));
    let hashes: ArrayRef = Arc::new(UInt64Array::new(run.keys().all_hashes().clone(), None));
    let columns = run.columns().iter().cloned().chain([hashes]).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, arrow_ipc::MetadataVersion::V5)?;
    let mut writer = FileWriter::try_new_with_options(to, batch.schema_ref(), options)?;
    writer.write(&batch)?;
    writer.finish()
}

/// A writer that counts and hashes its bytes.
struct Hashed<W> {
    to: W,
    hash: Xxh3,
    bytes: usize,
}

impl<W: Write> Hashed<W> {
    fn align(&mut self) -> Result<()> {
        let short = self.bytes.next_multiple_of(ALIGNMENT) - self.bytes;
        self.write_all(&[0; ALIGNMENT][..short])
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}
