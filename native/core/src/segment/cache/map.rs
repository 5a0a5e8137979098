//! Mapping a cached run into memory. Nothing is copied, decoded or hashed, except keys that are structs, lists or maps.
//! Pages that are never accessed are never read from disk.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::root_as_footer;
use bytes::Bytes;
use memmap2::Mmap;
use xxhash_rust::xxh3::Xxh3;

use super::super::Verdict;
use super::{ALIGNMENT, FORMAT, HASH, MAGIC, TAIL_BYTES, WORDS};
use crate::key::Keys;
use crate::run::{RunIndex, SortedRun};
use crate::schema::MapSchema;

/// Bytes at the end of an Arrow IPC file: length of the footer, and magic.
const IPC_TAIL: usize = 10;

/// Map the run that was cached under `key` in `file`. With `verify`, every byte is checked. The error says what is
/// wrong.
///
/// Without `verify`, the file must be unchanged since its last verification, because a changed file can make the
/// process do anything. Never truncate the file while the run is in use; unlinking it is safe.
pub fn map(schema: &Arc<MapSchema>, key: &str, file: &File, verify: bool) -> Verdict<SortedRun> {
    #[expect(unsafe_code, reason = "the folder is private to the user, so no other user changes a mapped file")]
    let mapped = unsafe { Mmap::map(file) }.map_err(|error| error.to_string())?;
    let data = Buffer::from(Bytes::from_owner(mapped));
    let parts = Parts::of(&data)?;
    if verify && checksum(&data, key) != parts.checksum {
        return Err("its bytes do not match its checksum".into());
    }
    let batch = columns(&data.slice_with_length(0, parts.ipc_bytes))?;
    let mut expected: Vec<_> = schema.columns().fields().iter().cloned().collect();
    let Some((hashes, found)) = batch.schema_ref().fields().split_last() else {
        return Err("it has no columns".into());
    };
    if hashes.name() != HASH || found != expected.as_mut_slice() || batch.num_rows() != parts.rows {
        return Err("its columns are not those of the state map".into());
    }
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    let hashes = columns.pop().and_then(|hashes| hashes.as_primitive_opt::<UInt64Type>().cloned());
    let hashes = hashes.ok_or("it has no hashes")?.values().clone();
    let keys = Keys::of_canonical(columns[..schema.key_width()].to_vec(), schema.key.len(), hashes);
    let keys = keys.map_err(|error| error.to_string())?;
    let index = parts.index(&data);
    SortedRun::from_indexed(schema, keys, columns, index).map_err(|error| error.to_string())
}

fn checksum(data: &[u8], key: &str) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&data[..data.len() - TAIL_BYTES + size_of::<u64>()]);
    hash.update(key.as_bytes());
    hash.digest()
}

/// The positions of the parts of a file.
struct Parts {
    rows: usize,
    ipc_bytes: usize,
    numbers: [u64; 3],
    starts: Range<usize>,
    by_deadline: Range<usize>,
    checksum: u64,
}

impl Parts {
    fn of(data: &[u8]) -> Verdict<Self> {
        let torn = || "it is truncated".to_owned();
        let (rest, tail) = data.split_last_chunk::<TAIL_BYTES>().ok_or_else(torn)?;
        if &tail[2 * size_of::<u64>()..] != MAGIC {
            return Err(torn());
        }
        let [count, checksum] = [word(tail, 0), word(tail, 1)];
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<u64>()));
        let start = bytes.and_then(|bytes| rest.len().checked_sub(bytes)).ok_or_else(torn)?;
        let words: Vec<u64> = (0..count as usize).map(|at| word(&rest[start..], at)).collect();
        if words.first() != Some(&FORMAT) || words.len() != WORDS {
            return Err("it has another format".into());
        }
        let size = |at: usize| usize::try_from(words[at]).map_err(|_| torn());
        let (rows, ipc_bytes) = (size(1)?, size(2)?);
        let mut end = ipc_bytes;
        let mut part = |length: usize| {
            let from = end.checked_next_multiple_of(ALIGNMENT);
            let bytes = length.checked_mul(size_of::<u32>());
            let to = from.zip(bytes).and_then(|(from, bytes)| from.checked_add(bytes));
            end = to.filter(|&to| to <= start).ok_or_else(torn)?;
            Ok::<_, String>(end - length * size_of::<u32>()..end)
        };
        let (starts, by_deadline) = (part(size(6)?)?, part(size(7)?)?);
        Ok(Self { rows, ipc_bytes, numbers: [words[3], words[4], words[5]], starts, by_deadline, checksum })
    }

    fn index(&self, data: &Buffer) -> RunIndex {
        RunIndex::of_parts(self.numbers, numbers(data, &self.starts), numbers(data, &self.by_deadline))
    }
}

/// Return the numbers in a part of a file, which starts at a multiple of their width.
fn numbers(data: &Buffer, part: &Range<usize>) -> ScalarBuffer<u32> {
    ScalarBuffer::new(data.clone(), part.start / size_of::<u32>(), part.len() / size_of::<u32>())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; size_of::<u64>()];
    word.copy_from_slice(&bytes[at * size_of::<u64>()..(at + 1) * size_of::<u64>()]);
    u64::from_le_bytes(word)
}

/// Return the only batch of an Arrow IPC file. It shares the bytes of the file.
fn columns(data: &Buffer) -> Verdict<RecordBatch> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let tail = data.split_last_chunk::<IPC_TAIL>().ok_or("it is truncated")?.1;
    let footer_bytes = read_footer_length(*tail).map_err(|error| said(&error))?;
    let start = (data.len() - IPC_TAIL).checked_sub(footer_bytes).ok_or("it is truncated")?;
    let footer = root_as_footer(&data[start..data.len() - IPC_TAIL]).map_err(|error| said(&error))?;
    let schema = arrow_ipc::convert::try_fb_to_schema(footer.schema().ok_or("it has no schema")?);
    let decoder = FileDecoder::new(Arc::new(schema.map_err(|error| said(&error))?), footer.version());
    #[expect(unsafe_code, reason = "the bytes are those that `write` wrote: their checksum was verified once")]
    let decoder = unsafe { decoder.with_skip_validation(true) };
    let blocks =
        footer.recordBatches().filter(|blocks| blocks.len() == 1).ok_or("it does not hold exactly one batch")?;
    let block = blocks.get(0);
    let size = |number: i64| usize::try_from(number).map_err(|error| said(&error));
    let (from, head) = (size(block.offset())?, size(i64::from(block.metaDataLength()))?);
    let bytes = head
        .checked_add(size(block.bodyLength())?)
        .filter(|&bytes| from.checked_add(bytes).is_some_and(|end| end <= start));
    let batch = data.slice_with_length(from, bytes.ok_or("it is truncated")?);
    decoder.read_record_batch(block, &batch).map_err(|error| said(&error))?.ok_or_else(|| "it has no batch".into())
}
