//! Segments: sorted runs as Parquet bytes. Any Parquet reader can read them; `docs/format.md` defines what they mean.
//!
//! Python decides where segments are stored, and which of them make up a version.
//! INVARIANT: the same run gives the same bytes; bytes that `write` did not write never become a run.

pub mod cache;
mod decimals;
mod footer;
mod numbers;
mod pages;
mod read;
#[cfg(test)]
mod tests;
pub mod thrift;
mod write;

pub use read::read;
pub use write::write;

/// Rows in a row group, the unit of checksums. Large enough to make its overhead negligible.
const ROW_GROUP_ROWS: usize = 1 << 17;

/// The result of a check of bytes; the error says in one line why they are not a segment, or not a cached run.
type Verdict<T> = Result<T, String>;
