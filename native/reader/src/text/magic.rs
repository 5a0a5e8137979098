//! What a file is by its first bytes, when it is not the text that its options say.
//!
//! INVARIANT: only a file that cannot be text in the declared encoding is refused.

use super::encoding::Charset;
use crate::error::Unreadable;

/// Up to so many bytes are looked at.
pub const LOOKED_AT: usize = 4096;
const LEAST_STRANGE: usize = 16;

/// Return why a file that begins with `start` is no text, or `None`. `start` is decompressed, and not decoded yet.
pub fn not_text(start: &[u8], format: &str, charset: Charset) -> Option<Unreadable> {
    let known = [
        (&b"PAR1"[..], "a Parquet file"),
        (b"PARE", "an encrypted Parquet file"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PK\x05\x06", "an empty zip archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"\xfd7zXZ\0", "xz data"),
        (b"\x04\x22\x4d\x18", "lz4 data"),
        (b"Obj\x01", "an Avro file"),
        (b"ORC", "an ORC file"),
        (b"%PDF-", "a PDF document"),
        (b"SQLite format 3\0", "an SQLite database"),
    ];
    for (magic, what) in known {
        if start.starts_with(magic) && start.iter().any(|byte| is_control(*byte)) {
            let shown: Vec<String> = magic.iter().map(|byte| format!("{byte:02x}")).collect();
            return Some(Unreadable::file(format!(
                "not {format}: the file begins with the bytes {}, which is {what}",
                shown.join(" ")
            )));
        }
    }
    if charset.is_utf16() {
        return other_order(start, format, charset);
    }
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Some(
            Unreadable::file(format!("not {format} in UTF-8: the file begins with the byte order mark of UTF-16"))
                .with_hint("declare encoding=\"UTF-16\""),
        );
    }
    if let Some(order) = order_without_mark(start) {
        return Some(
            Unreadable::file(format!("not {format}: every other byte is zero, as in {order}"))
                .with_hint(format!("declare encoding=\"{order}\"")),
        );
    }
    is_binary(start, charset).then(|| {
        let expected = charset.name();
        Unreadable::file(format!("not {format}: the file begins with binary data, expected text in {expected}"))
            .with_hint("if it is text in another encoding, declare it, for example encoding=\"windows-1252\"")
    })
}

/// Return why a file is not UTF-16 in the byte order that was declared, if its byte order mark is that of the other.
fn other_order(start: &[u8], format: &str, charset: Charset) -> Option<Unreadable> {
    let (declared, other) = (charset.name(), if start.starts_with(b"\xff\xfe") { "UTF-16LE" } else { "UTF-16BE" });
    let is_marked = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
    (is_marked && charset != Charset::Utf16 && declared != other).then(|| {
        Unreadable::file(format!("not {format} in {declared}: the file begins with the byte order mark of {other}"))
            .with_hint("declare encoding=\"UTF-16\"")
    })
}

/// Return the order of the bytes of UTF-16 if the text looks like that: two characters or more, all below U+0100.
fn order_without_mark(start: &[u8]) -> Option<&'static str> {
    let units = start.chunks_exact(2);
    if units.len() < 2 {
        return None;
    }
    if units.clone().all(|unit| unit[0] != 0 && unit[1] == 0) {
        return Some("UTF-16LE");
    }
    units.clone().all(|unit| unit[0] == 0 && unit[1] != 0).then_some("UTF-16BE")
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0x1b | 0x1c..=0x1f | 0x01 | 0x02)
}

/// Whether more than a fifth of the bytes are control characters or, in UTF-8, in no valid character. Zeros with which
/// the fields of a text in UTF-8 are filled up do not count.
fn is_binary(start: &[u8], charset: Charset) -> bool {
    let chunks = if charset.is_utf8() { start } else { &[] };
    let broken: usize = chunks.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let is_padded = charset.is_utf8() && broken == 0 && memchr::memchr2(b'\n', b'\r', start).is_some();
    let strange = broken + start.iter().filter(|byte| is_control(**byte) && !(is_padded && **byte == 0)).count();
    strange >= LEAST_STRANGE && strange * 5 > start.len()
}
