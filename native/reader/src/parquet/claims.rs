//! Checks of what a file claims about its schema and its pages, before the Parquet library allocates memory for it. A file
//! of a few bytes can claim gigabytes, and a failed allocation would abort the process.
//!
//! INVARIANT: after these checks, no list is longer than the footer, and no page claims far more than its bytes can hold.

use bytes::Bytes;
use parquet::file::reader::ChunkReader;
use tidemill_core::segment::thrift::{STRUCT, Thrift};

use super::file::MAX_DEPTH;

/// The length of the footer in four bytes, and "PAR1".
const TAIL_BYTES: usize = 8;
const MAGIC: &[u8] = b"PAR1";
/// Pages of this size or less may have any ratio. Writers end a page after about 1 MiB.
const FREE_BYTES: i64 = 64 << 20;
/// Larger pages may claim so many bytes for each byte of the file.
const MOST_RATIO: i64 = 100;
/// The most values of a page of delta-encoded text.
const MOST_TEXTS: usize = 1 << 26;

/// What the footer of a file is.
#[derive(Default)]
pub(super) struct Footer {
    /// Why it cannot be walked, or `None`. The library says what else is wrong with it.
    pub(super) why: Option<String>,
    /// Whether columns are encrypted.
    pub(super) is_encrypted: bool,
}

/// Walk the footer of a file.
pub(super) fn footer<R: ChunkReader>(reader: &R) -> parquet::errors::Result<Footer> {
    let mut found = Footer::default();
    let Some(end) = reader.len().checked_sub(TAIL_BYTES as u64) else { return Ok(found) };
    let tail = reader.get_bytes(end, TAIL_BYTES)?;
    let length = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let Some(start) = end.checked_sub(u64::from(length)).filter(|_| tail[4..] == *MAGIC) else { return Ok(found) };
    let footer = reader.get_bytes(start, length as usize)?;
    let mut children = Vec::new();
    let walked = Thrift(&footer).fields(&mut |field| match (field.path, children.last_mut()) {
        (200, _) if field.kind == STRUCT => children.push(0),
        (205, Some(count)) => *count = field.number,
        (8, _) => found.is_encrypted = true,
        _ => {}
    });
    found.why = if walked.is_none() { Some("its footer is truncated".into()) } else { schema(&children) };
    Ok(found)
}

/// Return what is wrong with the numbers of children of the types of a schema, in their order.
fn schema(children: &[i64]) -> Option<String> {
    let mut open = Vec::new();
    for &count in children {
        while open.last() == Some(&0) {
            open.pop();
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if count > children.len() as i64 {
            return Some(format!("a type claims {count} fields, but the schema has {} types", children.len()));
        }
        open.push(count.max(0));
        if open.len() > MAX_DEPTH + 1 {
            return Some(format!("its types are nested more than {MAX_DEPTH} deep"));
        }
    }
    None
}

/// Return why the page that begins with `bytes` cannot be read, or `None`. The error means that its header goes on.
pub(super) fn page(bytes: &[u8]) -> Result<Option<String>, ()> {
    let (mut uncompressed, mut compressed, mut entries) = (0, 0, 0);
    let walked = Thrift(bytes).fields(&mut |field| match field.path {
        2 => uncompressed = field.number,
        3 => compressed = field.number,
        701 => entries = field.number,
        _ => {}
    });
    walked.ok_or(())?;
    if uncompressed > FREE_BYTES && uncompressed / MOST_RATIO > compressed {
        return Ok(Some(format!("a page of {compressed} bytes claims {uncompressed} bytes")));
    }
    if entries > uncompressed.max(0) {
        return Ok(Some(format!("a dictionary of {uncompressed} bytes claims {entries} values")));
    }
    Ok(None)
}

/// Return why the lengths of delta-encoded texts cannot be read. `lists`: one list of lengths, or two.
pub(super) fn lengths(data: &Bytes, lists: usize, values: u32) -> Option<String> {
    let mut rest = &data[..];
    for list in 0..lists {
        let Some((count, after)) = delta(rest, list + 1 < lists) else {
            return Some("the lengths of its texts are truncated".into());
        };
        if count > (values as usize).min(MOST_TEXTS) {
            return Some(format!("a page of {values} values claims {count} texts"));
        }
        rest = after;
    }
    None
}

/// Return how many numbers a delta-encoded list claims, and what follows if that is asked.
fn delta(mut bytes: &[u8], is_walked: bool) -> Option<(usize, &[u8])> {
    let block = varint(&mut bytes)?;
    let parts = varint(&mut bytes)?;
    let count = varint(&mut bytes)?;
    varint(&mut bytes)?; // the first number
    let in_part = block.checked_div(parts)?;
    let mut left = count.saturating_sub(1);
    while is_walked && left > 0 {
        varint(&mut bytes)?; // the least difference
        let (widths, after) = bytes.split_at_checked(parts)?;
        bytes = after;
        for width in widths.iter().take(left.div_ceil(in_part.max(1))) {
            bytes = bytes.get(usize::from(*width).checked_mul(in_part)? / 8..)?;
        }
        left = left.saturating_sub(block.max(1));
    }
    Some((count, bytes))
}

fn varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(number).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a dictionary page with its sizes, and a number of entries.
    fn header(uncompressed: i64, compressed: i64, entries: i64) -> Vec<u8> {
        let mut bytes = vec![0x15, 4];
        for number in [uncompressed, compressed] {
            bytes.push(0x15);
            put(number, &mut bytes);
        }
        bytes.extend([0x4c, 0x15]);
        put(entries, &mut bytes);
        bytes.extend([0, 0]);
        bytes
    }

    fn put(number: i64, bytes: &mut Vec<u8>) {
        let mut rest = number as u64 * 2;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }

    #[test]
    fn a_page_cannot_claim_far_more_than_its_bytes() {
        for (uncompressed, compressed, entries) in [(64 << 20, 10, 0), (1 << 30, 11 << 20, 9), (8, 8, 8)] {
            assert_eq!(page(&header(uncompressed, compressed, entries)), Ok(None));
        }
        let found = page(&header(2_147_483_647, 1000, 0));
        let expected = "a page of 1000 bytes claims 2147483647 bytes";
        assert_eq!(found, Ok(Some(expected.into())));
        let found = page(&header(100, 100, 1 << 30));
        assert_eq!(found, Ok(Some("a dictionary of 100 bytes claims 1073741824 values".into())));
        let whole = header(8, 8, 8);
        assert_eq!(page(&whole[..whole.len() - 1]), Err(()));
    }

    #[test]
    fn a_schema_has_as_many_types_as_it_claims() {
        assert_eq!(schema(&[2, 0, 1, 0]), None);
        let found = schema(&[2_147_483_647, 0]);
        assert_eq!(found.as_deref(), Some("a type claims 2147483647 fields, but the schema has 2 types"));
        let found = schema(&[1; 100_000]);
        assert_eq!(found.as_deref(), Some("its types are nested more than 64 deep"));
        assert_eq!(schema(&[&[1; 64][..], &[0]].concat()), None);
    }

    #[test]
    fn a_list_of_lengths_claims_at_most_the_values_of_its_page() {
        // A block of 128 numbers in 4 parts: 3 numbers, first 5, least difference 0, each of the same length.
        let short = [0x80, 0x01, 4, 3, 10, 0, 0, 0, 0, 0];
        let two = Bytes::from([short, short].concat());
        assert_eq!(lengths(&two, 2, 3), None);
        assert_eq!(lengths(&two, 2, 2).as_deref(), Some("a page of 2 values claims 3 texts"));
        let huge = Bytes::from_static(&[0x80, 0x01, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0]);
        assert_eq!(lengths(&huge, 1, 9).as_deref(), Some("a page of 9 values claims 2199023255551 texts"));
        let second = Bytes::from([&short[..], &huge].concat());
        assert_eq!(lengths(&second, 2, 9).as_deref(), Some("a page of 9 values claims 2199023255551 texts"));
        assert!(lengths(&two.slice(..12), 2, 3).is_some());
    }
}
