//! JSON: values as a flat tape of tokens, and rows in the columns of a schema.

mod convert;
mod options;
mod read;
mod records;
mod shape;
mod tape;
#[cfg(test)]
mod tests;
mod texts;

pub use options::JsonOptions;
pub use read::JsonReader;
pub use shape::Shape;
pub use tape::{Allow, MAX_DEPTH};
