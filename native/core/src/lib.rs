//! The engine of Tidemill: keys and their hashes, sorted runs, state maps, segments and keyed operators.
//!
//! The engine knows no Python, no object names, no version numbers and no clock: bytes, rows and times are arguments.
//! INVARIANT: rows are always ordered by (hash of the key, key bytes, sub-key bytes), and keys are compared by hash
//! first.

pub mod aggregate;
pub mod ddl;
pub mod error;
mod gather;
pub mod key;
pub mod map;
pub mod memory;
pub mod offsets;
pub mod operator;
pub mod range;
pub mod run;
pub mod schema;
pub mod segment;
pub mod time;

pub use error::{Error, Result};
pub use key::Keys;
pub use map::{Changes, Found, Rows, StateMap};
pub use range::KeyRange;
pub use run::SortedRun;
pub use schema::MapSchema;
