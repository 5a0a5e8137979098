//! `Chunks`: the prepared rows of a pass, each chunk with the input that its rows are of.
//!
//! INVARIANT: chunks of one input follow each other in plan order, and inputs follow each other by their numbers.

use std::ops::Deref;

use arrow_array::RecordBatch;

use crate::error::{Error, Result};

/// The chunks of a pass, as a slice that also knows the input of each.
#[derive(Clone, Copy, Debug)]
pub struct Chunks<'a> {
    rows: &'a [RecordBatch],
    ports: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// The chunks of an operator with one input.
    #[must_use]
    pub fn of_one_input(rows: &'a [RecordBatch]) -> Self {
        Self { rows, ports: &[] }
    }

    /// The chunks of an operator with several inputs: `ports` has the number of the input of each. `InternalError`
    /// unless there is a number for each chunk, and they do not fall.
    pub fn of_inputs(rows: &'a [RecordBatch], ports: &'a [u8]) -> Result<Self> {
        if rows.len() != ports.len() || !ports.is_sorted() {
            return Err(Error::InternalError(format!(
                "{} chunks are of the inputs {ports:?}, expected a rising number for each",
                rows.len()
            )));
        }
        Ok(Self { rows, ports })
    }

    /// Return the number of the input of a chunk.
    #[must_use]
    pub fn port(&self, chunk: usize) -> usize {
        self.ports.get(chunk).map_or(0, |&port| usize::from(port))
    }
}

impl Deref for Chunks<'_> {
    type Target = [RecordBatch];

    fn deref(&self) -> &[RecordBatch] {
        self.rows
    }
}
