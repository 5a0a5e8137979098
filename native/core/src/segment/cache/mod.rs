//! Cached runs: opened segments in local files, uncompressed and with their index, to be mapped into memory.
//!
//! A file has an Arrow IPC file of the run's columns and hashes; the index (prefix table, rows by deadline); words that
//! locate each part; then the number of words, a checksum of everything before it, and a magic number.
//! INVARIANT: a cached run is only a copy. If a file is damaged or missing, the segment is read again.

mod map;
#[cfg(test)]
mod tests;
mod write;

pub use map::map;
pub use write::write;

const MAGIC: &[u8; 8] = b"TIDEKEEP";
/// Increased with every change of the layout, of the hash, or of what a run holds.
const FORMAT: u64 = 2;
/// Number of words, checksum, magic.
const TAIL_BYTES: usize = 24;
/// Format, rows, bytes of the IPC file, three numbers and the length of the prefix table, number of rows with
/// deadlines.
const WORDS: usize = 8;
const HASH: &str = "tidemill.hash";
/// Buffers start at multiples of this, so that numbers of any width are aligned.
const ALIGNMENT: usize = 64;
