//! Checks of what a file claims about its pages, before memory is allocated for them. A page of a few bytes can claim
//! gigabytes.
//!
//! INVARIANT: after these checks, no list is longer than the footer, and no page claims more than its bytes can hold.

use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::Verdict;
use super::thrift::{I32, STRUCT, Thrift, ThriftField};

/// The length of the footer in four bytes, and "PAR1", both after the footer.
const TAIL_BYTES: usize = 8;
/// Most bytes in a block of zstd.
const BLOCK_BYTES: u64 = 128 << 10;
/// Encodings that store all bytes of their texts in the page, as Parquet numbers them.
const PLAIN: i64 = 0;
const DELTA_LENGTH: i64 = 6;
/// Most bytes of text that a column can have.
const MOST_TEXT: usize = i32::MAX as usize;
const ZSTD_MAGIC: u32 = 0xfd2f_b528;
/// The first of 16 magic numbers of skippable frames, which hold no data.
const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;

/// The fields of a page header.
#[derive(Default)]
struct Header {
    uncompressed: i64,
    compressed: i64,
    /// In a data page.
    values: i64,
    /// In a dictionary page.
    entries: i64,
    /// The encoding of the values of a data page.
    encoding: i64,
    /// Bytes of levels before the compressed part, in pages of version 2.
    levels: i64,
    is_plain: bool,
    is_odd: bool,
}

/// Check that the footer of a Parquet file can be walked.
pub(super) fn check_footer(data: &[u8]) -> Verdict<()> {
    let odd = || "not a valid Tidemill segment: its footer is truncated".to_owned();
    let (rest, tail) = data.split_last_chunk::<TAIL_BYTES>().ok_or_else(odd)?;
    let length = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]) as usize;
    let start = rest.len().checked_sub(length).ok_or_else(odd)?;
    Thrift(&rest[start..]).fields(&mut |_| {}).ok_or_else(odd)
}

/// Return the most bytes that all columns take while they are decoded. Checks that each page can hold what it claims,
/// and that columns outside lists have one value for each row.
pub(super) fn check_pages(data: &[u8], metadata: &ParquetMetaData) -> Verdict<usize> {
    let mut columns = vec![Claim::default(); metadata.file_metadata().schema_descr().num_columns()];
    for (number, group) in metadata.row_groups().iter().enumerate() {
        for (column, total) in group.columns().iter().zip(&mut columns) {
            let said = |why: String| format!("row group {number}, column `{}`: {why}", column.column_path().string());
            let claim = check_chunk(data, column).map_err(said)?;
            let values = claim.values;
            let is_flat = column.column_descr().max_rep_level() == 0;
            if values < group.num_rows() || (is_flat && values > group.num_rows()) {
                return Err(said(format!("it has {values} values, expected {}", group.num_rows())));
            }
            total.add(claim, column);
        }
    }
    Ok(columns.iter().fold(0, |total, claim| total.saturating_add(claim.decoded)))
}

/// What the pages of a column claim to hold.
#[derive(Clone, Copy, Default)]
struct Claim {
    values: i64,
    /// Uncompressed bytes of the pages.
    bytes: u64,
    /// Whether values may be shorter in the page than decoded: dictionary- or delta-encoded text.
    may_expand: bool,
    decoded: usize,
}

impl Claim {
    /// Add what a chunk of the column takes while it is decoded. Buffers that grow can take up to twice their content.
    fn add(&mut self, chunk: Self, column: &ColumnChunkMetaData) {
        let width = match column.column_type() {
            Type::BOOLEAN => 1,
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => 16,
        };
        let levels =
            if column.column_descr().max_rep_level() + column.column_descr().max_def_level() > 1 { 8 } else { 0 };
        let values = usize::try_from(chunk.values).unwrap_or(usize::MAX);
        let bytes = usize::try_from(chunk.bytes).unwrap_or(usize::MAX);
        let text = match (column.column_type() == Type::BYTE_ARRAY, chunk.may_expand) {
            (false, _) => 0,
            (true, false) => bytes,
            (true, true) => bytes.saturating_mul(values).min(MOST_TEXT),
        };
        let decoded = values.saturating_mul(width + levels).saturating_add(text).saturating_mul(2);
        self.decoded = self.decoded.saturating_add(decoded);
    }
}

/// Check the pages of `column`, and return what they claim to hold.
fn check_chunk(data: &[u8], column: &ColumnChunkMetaData) -> Verdict<Claim> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let bytes = usize::try_from(start).ok().zip(usize::try_from(column.compressed_size()).ok());
    let mut rest = bytes
        .and_then(|(start, length)| data.get(start..start.checked_add(length)?))
        .ok_or("it is outside the file")?;
    let mut claim = Claim::default();
    while !rest.is_empty() {
        let (header, after) = Header::read(rest).ok_or("a page has no valid header")?;
        let length = usize::try_from(header.compressed).ok().filter(|&length| length <= after.len());
        let (page, after) = after.split_at(length.ok_or("a page is truncated")?);
        let is_packed = matches!(column.compression(), Compression::ZSTD(_)) && !header.is_plain;
        if is_packed {
            let most = header.most(page);
            if most.is_none_or(|most| header.uncompressed < 0 || header.uncompressed as u64 > most) {
                let claimed = header.uncompressed;
                return Err(format!(
                    "a page claims {claimed} bytes, more than its {} compressed bytes can hold",
                    page.len()
                ));
            }
        }
        if header.values < 0 {
            return Err(format!("a page has {} values", header.values));
        }
        let holds = if is_packed { header.uncompressed } else { header.compressed };
        if !(0..=holds).contains(&header.entries) {
            return Err(format!("a dictionary of {holds} bytes has {} entries", header.entries));
        }
        claim.values += header.values;
        claim.bytes = claim.bytes.saturating_add_signed(holds);
        claim.may_expand |= !matches!(header.encoding, PLAIN | DELTA_LENGTH);
        rest = after;
    }
    Ok(claim)
}

impl Header {
    /// Read the header at the start of `bytes`; return it with the bytes after it.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (mut header, mut thrift) = (Self::default(), Thrift(bytes));
        thrift.fields(&mut |field| header.take(field))?;
        (!header.is_odd).then_some((header, thrift.0))
    }

    fn take(&mut self, field: ThriftField) {
        match field.path {
            2 => self.uncompressed = field.number,
            3 => self.compressed = field.number,
            701 => self.entries = field.number,
            501 | 801 => self.values = field.number,
            502 | 804 => self.encoding = field.number,
            805 | 806 => self.levels = self.levels.saturating_add(field.number),
            807 => self.is_plain = field.number == 0,
            _ => {}
        }
        // A decoder assumes the type that the format defines for a field, whatever type the file stores.
        self.is_odd |= match field.path {
            1..=4 | 501..=504 | 701 | 702 | 801..=806 => field.kind != I32 || i32::try_from(field.number).is_err(),
            5..=8 => field.kind != STRUCT,
            703 | 807 => !field.is_boolean(),
            _ => false,
        };
    }

    /// Return the most bytes that `page`, which is compressed, can decompress to; `None` if it is malformed.
    fn most(&self, page: &[u8]) -> Option<u64> {
        let (levels, values) = page.split_at_checked(usize::try_from(self.levels).ok()?)?;
        let is_empty = self.uncompressed == self.levels;
        let most = if is_empty { 0 } else { most_of_frames(values)? };
        Some(most + levels.len() as u64)
    }
}

/// Return the most bytes that frames of zstd can hold, from the number and types of their blocks (RFC 8878).
fn most_of_frames(mut bytes: &[u8]) -> Option<u64> {
    let mut most = 0u64;
    while let Some((magic, rest)) = bytes.split_first_chunk::<4>() {
        let magic = u32::from_le_bytes(*magic);
        if magic & !0xf == ZSTD_SKIPPABLE {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            bytes = rest.get(u32::from_le_bytes(*length) as usize..)?;
        } else if magic == ZSTD_MAGIC {
            let (of_frame, rest) = most_of_frame(rest)?;
            (most, bytes) = (most + of_frame, rest);
        } else {
            return None;
        }
    }
    bytes.is_empty().then_some(most)
}

/// Return the most bytes that one frame can hold, from the bytes after its magic number, and the bytes after the frame.
fn most_of_frame(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&descriptor, rest) = bytes.split_first()?;
    let (size, is_single, has_checksum) = (descriptor >> 6, descriptor & 0x20 != 0, descriptor & 4 != 0);
    let size_bytes = if size == 0 { usize::from(is_single) } else { 1 << size };
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let mut rest = rest.get(usize::from(!is_single) + dictionary_bytes + size_bytes..)?;
    let mut most = 0u64;
    loop {
        let (head, after) = rest.split_first_chunk::<3>()?;
        let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let size = head >> 3;
        let (length, holds) = match head >> 1 & 3 {
            0 => (size, u64::from(size)),
            1 => (1, u64::from(size).min(BLOCK_BYTES)),
            2 => (size, BLOCK_BYTES),
            _ => return None,
        };
        most += holds;
        rest = after.get(length as usize..)?;
        if head & 1 == 1 {
            return Some((most, rest.get(if has_checksum { 4 } else { 0 }..)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::most_of_frames;

    #[test]
    fn a_frame_holds_what_its_blocks_hold() {
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0x24, 0xff]; // one segment, a size of one byte, a checksum
        let block = |last: u32, kind: u32, size: u32| (last | kind << 1 | size << 3).to_le_bytes()[..3].to_vec();
        let frame = |blocks: &[Vec<u8>]| [&head[..], &blocks.concat(), &[0; 4]].concat();
        let (plain, run) = ([block(0, 0, 2), vec![7, 7]].concat(), [block(0, 1, 1000), vec![7]].concat());
        let packed = [block(1, 2, 3), vec![1, 2, 3]].concat();
        let whole = frame(&[plain.clone(), run, packed]);
        assert_eq!(most_of_frames(&whole), Some(2 + 1000 + (128 << 10)));
        assert_eq!(most_of_frames(&[whole.clone(), whole.clone()].concat()), Some(2 * (2 + 1000 + (128 << 10))));
        let empty = [0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9];
        assert_eq!(most_of_frames(&[&empty[..], &whole].concat()), Some(2 + 1000 + (128 << 10)));
        for odd in [&whole[..whole.len() - 1], &whole[..9], &whole[1..], &[whole.clone(), vec![1]].concat()] {
            assert_eq!(most_of_frames(odd), None);
        }
        assert_eq!(most_of_frames(&frame(&[plain, block(1, 3, 0)])), None);
    }
}
