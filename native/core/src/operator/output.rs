//! What an operator emits in a pass, brought into the one order that outputs have.
//!
//! INVARIANT: rows leave sorted by (key hash, key bytes, emission number), whatever the order they were emitted in
//! across keys; rows of one key keep theirs.

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;

use super::RowAt;
use crate::error::{Error, Result};
use crate::key::Keys;

/// Rows of one key that were put aside instead of being applied.
#[derive(Clone, Debug)]
pub struct Aside {
    /// The rows, of the chunks of the pass.
    pub rows: Vec<RowAt>,
    /// Why, in one line.
    pub reason: String,
}

/// Collects the rows emitted in one pass.
#[derive(Debug)]
pub struct Output {
    schema: SchemaRef,
    emitted: Vec<(Keys, RecordBatch)>,
    aside: Vec<Aside>,
}

impl Output {
    /// Nothing emitted yet.
    #[must_use]
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema, emitted: Vec::new(), aside: Vec::new() }
    }

    /// Emits `rows`; `keys` has the key of each.
    pub fn emit(&mut self, keys: Keys, rows: RecordBatch) -> Result<()> {
        if keys.len() != rows.num_rows() || rows.schema_ref().fields() != self.schema.fields() {
            return Err(Error::InternalError(format!(
                "an operator emitted {} rows of {} under {} keys, expected {}",
                rows.num_rows(),
                rows.schema_ref(),
                keys.len(),
                self.schema
            )));
        }
        if rows.num_rows() > 0 {
            self.emitted.push((keys, rows));
        }
        Ok(())
    }

    /// Puts rows of the pass aside.
    pub fn put_aside(&mut self, rows: &[RowAt], reason: String) {
        if !rows.is_empty() {
            self.aside.push(Aside { rows: rows.to_vec(), reason });
        }
    }

    /// The rows that were put aside.
    pub fn take_aside(&mut self) -> Vec<Aside> {
        std::mem::take(&mut self.aside)
    }

    /// All rows, in order.
    pub fn into_rows(mut self) -> Result<RecordBatch> {
        if self.emitted.len() == 1 && is_sorted(&self.emitted[0].0) {
            return Ok(self.emitted.remove(0).1);
        }
        let mut order = self.addresses();
        order.sort_by(|a, b| self.keys_of(a.0).cmp_at(a.1, self.keys_of(b.0), b.1));
        let starts: Vec<usize> = self
            .emitted
            .iter()
            .scan(0, |next, (_, rows)| {
                let start = *next;
                *next += rows.num_rows();
                Some(start)
            })
            .collect();
        let all = concat_batches(&self.schema, self.emitted.iter().map(|(_, rows)| rows))?;
        let picks: UInt64Array = order.iter().map(|&(part, row)| (starts[part] + row) as u64).collect();
        Ok(take_record_batch(&all, &picks)?)
    }

    fn keys_of(&self, part: usize) -> &Keys {
        &self.emitted[part].0
    }

    fn addresses(&self) -> Vec<(usize, usize)> {
        let parts = self.emitted.iter().enumerate();
        parts.flat_map(|(part, (keys, _))| (0..keys.len()).map(move |row| (part, row))).collect()
    }
}

fn is_sorted(keys: &Keys) -> bool {
    (1..keys.len()).all(|row| keys.cmp_at(row - 1, keys, row).is_le())
}
