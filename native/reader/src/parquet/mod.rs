//! Parquet: row groups of a file as Arrow rows in the columns of a schema.
//!
//! Only the columns of the schema are read, so that columns that the schema lacks cannot fail.
//! INVARIANT: a value is in its column's type exactly, or the file is refused; text is valid UTF-8; a damaged file is an
//! error and no panic.

mod claims;
mod convert;
mod file;
mod fit;
mod old_calendar;
mod old_zone;
mod pages;
#[cfg(test)]
mod tests;

pub use file::{ParquetFile, Rows};
