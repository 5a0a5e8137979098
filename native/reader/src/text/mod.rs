//! What the text formats share: bytes decompressed and in UTF-8, a buffer of whole records, and columns from text.

pub mod bytes;
pub mod column;
pub mod compressed;
pub mod decimal;
pub mod encoding;
pub mod magic;
pub mod number;
