//! Kept runs: opened segments in a file of this machine, uncompressed and with their index, to be mapped into memory.
//!
//! One file: an Arrow IPC file of the run's columns and hashes; the index (prefix table, rows by deadline); then
//! words that tell where each part lies; then their number, a checksum of all before it, and a magic number.
//! INVARIANT: it is a copy: nothing in it is needed, and who finds it damaged reads the segment again.

mod map;
#[cfg(test)]
mod tests;
mod write;

pub use map::map;
pub use write::write;

const MAGIC: &[u8; 8] = b"TIDEKEEP";
/// Changes with every change of the layout, of the hash, or of what a run holds.
const FORMAT: u64 = 2;
/// Number of words, checksum, magic.
const TAIL_BYTES: usize = 24;
/// Format, rows, the bytes of the IPC file, three numbers of the prefix table, its length, how many rows have deadlines.
const WORDS: usize = 8;
const HASH: &str = "tidemill.hash";
/// Buffers begin at multiples of it, so that numbers of all widths lie as the processor likes them.
const ALIGNMENT: usize = 64;
