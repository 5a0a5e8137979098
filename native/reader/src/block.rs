//! What readers of text return: blocks of rows, and the rejects among them.

use arrow_array::RecordBatch;

use crate::error::Reject;

/// Consecutive rows of a file in the columns of its schema, then `_row`, and the rejects since the block before.
#[derive(Debug, Clone)]
pub struct Block {
    /// The rows. The last column is the number of each record in its file, from 0 on; rejected records count, too.
    pub rows: RecordBatch,
    /// The records that are no rows, in their order.
    pub rejects: Vec<Reject>,
}

/// When a block is complete. INVARIANT: that depends on the records alone, not on how they are read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A block of so many rows, or of so many rejects, is complete.
    pub block_rows: usize,
    /// A block is complete as soon as its records have so many bytes in the file.
    pub block_bytes: usize,
    /// A longer record is an error.
    pub record_bytes: usize,
}

impl Limits {
    /// Return how many records still fit into a block, whether they are rows or rejects.
    #[must_use]
    pub fn room(&self, rows: usize, rejects: usize, bytes: usize) -> usize {
        if bytes < self.block_bytes { self.block_rows.saturating_sub(rows.max(rejects)) } else { 0 }
    }
}
