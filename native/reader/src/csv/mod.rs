//! CSV: where records and fields begin and end, by Spark's rules, and rows in the columns of a schema.

mod dialect;
mod header;
mod quoted;
mod read;
mod split;
#[cfg(test)]
mod tests;

pub use dialect::Dialect;
pub use header::Matching;
pub use read::{CsvOptions, CsvReader};
pub use split::{Fields, Span, Splitter, Step};
