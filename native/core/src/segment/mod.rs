//! Segments: sorted runs as Parquet bytes. Any reader of Parquet reads one; `docs/format.md` tells what it means.
//!
//! Where segments lie, and which of them make a version, is Python's business.
//! INVARIANT: the same run gives the same bytes; bytes that were not written by `write` never make a run.

pub mod cache;
mod decimals;
mod footer;
mod numbers;
mod pages;
mod read;
#[cfg(test)]
mod tests;
mod thrift;
mod write;

pub use read::read;
pub use write::write;

/// Rows of a row group, the unit of checksums. Large enough that its overhead is nothing.
const ROW_GROUP_ROWS: usize = 1 << 17;

/// The result of a check of bytes; the error says in one line why they are not a segment, or not a cached run.
type Verdict<T> = Result<T, String>;
