//! Columns of 8-byte numbers, decoded straight into their final memory.
//!
//! Most columns of a state are like this, with no nulls or only nulls. The Parquet decoder takes five times as long to
//! join their byte streams. Pages stored in any other way are left to the decoder.

use std::sync::Arc;

use arrow_array::{ArrayRef, make_array, new_null_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

const WIDTH: usize = size_of::<u64>();
/// Rows for each byte of the file whose memory is reserved before they have been decoded.
const CLAIMED_ROWS_PER_BYTE: usize = 4;

/// The content of a page.
enum PageValues<'a> {
    Nulls(usize),
    Split(&'a [u8]),
    Plain(&'a [u8]),
}

/// Decode column `root` of a file, with `data_type` and `rows` rows; `None` if the Parquet decoder has to do it.
pub(super) fn numbers(
    data: &Bytes,
    metadata: &ParquetMetaData,
    root: usize,
    data_type: &DataType,
    rows: usize,
) -> Result<Option<ArrayRef>> {
    let columns = metadata.file_metadata().schema_descr();
    let Some(leaf) = (0..columns.num_columns()).find(|&leaf| columns.get_column_root_idx(leaf) == root) else {
        return Ok(None);
    };
    let column = columns.column(leaf);
    let is_number = matches!(column.physical_type(), Type::INT64 | Type::DOUBLE);
    if !is_number || data_type.primitive_width() != Some(WIDTH) || column.max_rep_level() > 0 {
        return Ok(None);
    }
    let (mut numbers, mut nulls): (Vec<u64>, usize) = (Vec::new(), 0);
    numbers.reserve_exact(rows.min(data.len().saturating_mul(CLAIMED_ROWS_PER_BYTE)));
    let source = Arc::new(data.clone());
    for group in metadata.row_groups() {
        let group_rows = usize::try_from(group.num_rows())?;
        let mut pages = SerializedPageReader::new(Arc::clone(&source), group.column(leaf), group_rows, None)?;
        while let Some(page) = pages.get_next_page()? {
            // A page can claim, and by compression hold, far more values than there are rows. Keep nothing of such a
            // page.
            if numbers.len() + nulls + page.num_values() as usize > rows {
                return Ok(None);
            }
            match values(&page, column.max_def_level()) {
                Some(PageValues::Nulls(count)) => nulls += count,
                Some(PageValues::Split(streams)) => join(streams, &mut numbers),
                Some(PageValues::Plain(bytes)) => numbers.extend(bytes.chunks_exact(WIDTH).map(word)),
                None => return Ok(None),
            }
        }
    }
    match (numbers.len(), nulls) {
        (0, nulls) if nulls == rows => Ok(Some(new_null_array(data_type, rows))),
        (there, 0) if there == rows => {
            let built = ArrayData::builder(data_type.clone()).len(rows).add_buffer(Buffer::from_vec(numbers)).build();
            Ok(Some(make_array(built.map_err(|error| ParquetError::ArrowError(error.to_string()))?)))
        }
        _ => Ok(None),
    }
}

/// Return the values of a page if all or none of them are null.
fn values(page: &Page, max_def_level: i16) -> Option<PageValues<'_>> {
    let Page::DataPage { buf, num_values, encoding, def_level_encoding: Encoding::RLE, .. } = page else {
        return None;
    };
    let (count, bytes) = (*num_values as usize, &buf[..]);
    let bytes = match max_def_level {
        0 => bytes,
        1 => {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            let (levels, values) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            match only_level(levels, count)? {
                0 => return Some(PageValues::Nulls(count)),
                _ => values,
            }
        }
        _ => return None,
    };
    match encoding {
        _ if bytes.len() != count.checked_mul(WIDTH)? => None,
        Encoding::BYTE_STREAM_SPLIT => Some(PageValues::Split(bytes)),
        Encoding::PLAIN => Some(PageValues::Plain(bytes)),
        _ => None,
    }
}

/// Return the common definition level of all `count` values, if it is RLE-encoded as one repeated value.
fn only_level(mut levels: &[u8], count: usize) -> Option<u8> {
    let (mut seen, mut only) = (0usize, None);
    while seen < count {
        let mut header = 0u64;
        for shift in (0..35).step_by(7) {
            let (&byte, rest) = levels.split_first()?;
            levels = rest;
            header |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (&level, rest) = levels.split_first()?;
        levels = rest;
        let is_run = header & 1 == 0 && header > 0 && level <= 1;
        if !is_run || only.is_some_and(|only| only != level) {
            return None;
        }
        only = Some(level);
        seen = seen.checked_add(usize::try_from(header >> 1).ok()?)?;
    }
    only
}

/// Append numbers stored as byte streams: the first eighth of `streams` has their first bytes, the next their second
/// bytes.
fn join(streams: &[u8], numbers: &mut Vec<u64>) {
    let count = streams.len() / WIDTH;
    numbers.reserve(count);
    let whole = count - count % WIDTH;
    for first in (0..whole).step_by(WIDTH) {
        let mut block = [0; WIDTH];
        for (stream, word_of_stream) in block.iter_mut().enumerate() {
            *word_of_stream = word(&streams[stream * count + first..][..WIDTH]);
        }
        transpose(&mut block);
        numbers.extend_from_slice(&block);
    }
    let byte = |at: usize, stream: usize| u64::from(streams[stream * count + at]) << (8 * stream);
    numbers.extend((whole..count).map(|at| (0..WIDTH).fold(0, |number, stream| number | byte(at, stream))));
}

/// Transpose 8 words of 8 bytes: byte k of word j becomes byte j of word k. Swaps halves, then quarters, then bytes.
#[inline]
fn transpose(words: &mut [u64; WIDTH]) {
    for (apart, low) in [(4, 0x0000_0000_ffff_ffff), (2, 0x0000_ffff_0000_ffff), (1, 0x00ff_00ff_00ff_00ff)] {
        for at in (0..WIDTH).filter(|at| at & apart == 0) {
            let differ = ((words[at] >> (8 * apart)) ^ words[at + apart]) & low;
            words[at + apart] ^= differ;
            words[at] ^= differ << (8 * apart);
        }
    }
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; WIDTH];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::{join, only_level};

    #[test]
    fn byte_streams_are_joined_whatever_their_length() {
        for count in [0, 1, 7, 8, 9, 64, 71] {
            let numbers: Vec<u64> = (0..count).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let streams: Vec<u8> = (0..8).flat_map(|byte| numbers.iter().map(move |n| n.to_le_bytes()[byte])).collect();
            let mut joined = vec![7];
            join(&streams, &mut joined);
            assert_eq!((joined[0], &joined[1..]), (7, numbers.as_slice()));
        }
    }

    #[test]
    fn a_single_level_is_distinguished_from_several() {
        assert_eq!(only_level(&[20, 1], 10), Some(1));
        assert_eq!(only_level(&[20, 0, 2, 0], 11), Some(0));
        assert_eq!(only_level(&[0x80, 0x02, 1], 128), Some(1));
        for odd in [&[20, 1, 2, 0][..], &[20, 2], &[3, 0xff], &[20], &[], &[0, 1], &[0xff; 9]] {
            assert_eq!(only_level(odd, 11), None, "{odd:?}");
        }
    }
}
