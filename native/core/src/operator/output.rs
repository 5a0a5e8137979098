//! What an operator emits in a pass, brought into the one order that outputs have.
//!
//! INVARIANT: rows leave sorted by (key hash, key bytes, emission number), whatever the order they were emitted in
//! across keys; rows of one key keep theirs.

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{FieldRef, SchemaRef};

use super::RowAt;
use crate::error::{Error, Result};
use crate::gather::{Pick, gather};
use crate::key::Keys;

/// Rows of one key that were put quarantined instead of being applied.
#[derive(Clone, Debug)]
pub struct Quarantined {
    /// The rows, of the chunks of the pass; none where the key was called for its time alone.
    pub rows: Vec<RowAt>,
    /// Why, in one line.
    pub reason: String,
}

/// Rows emitted together.
#[derive(Debug)]
struct Emitted {
    keys: Keys,
    /// The number of its key for each row; none: one row a key.
    by: Option<Vec<u32>>,
    rows: RecordBatch,
}

impl Emitted {
    fn is_sorted(&self) -> bool {
        self.by.as_ref().is_none_or(|by| by.is_sorted()) && is_sorted(&self.keys)
    }

    /// With a key for each row.
    fn spread(self) -> Result<(Keys, RecordBatch)> {
        let keys = self.by.map_or_else(|| Ok(self.keys.clone()), |by| self.keys.take(&by))?;
        Ok((keys, self.rows))
    }
}

/// Collects the rows emitted in one pass.
#[derive(Debug)]
pub struct Output {
    schema: SchemaRef,
    emitted: Vec<Emitted>,
    quarantined: Vec<Quarantined>,
}

impl Output {
    /// Nothing emitted yet.
    #[must_use]
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema, emitted: Vec::new(), quarantined: Vec::new() }
    }

    /// Emits `rows`; `keys` has the key of each.
    pub fn emit(&mut self, keys: Keys, rows: RecordBatch) -> Result<()> {
        self.check(keys.len(), &rows)?;
        self.add(Emitted { keys, by: None, rows });
        Ok(())
    }

    /// Emits `rows`; row i has the key number `by[i]` of `keys`.
    pub fn emit_by(&mut self, keys: &Keys, by: Vec<u32>, rows: RecordBatch) -> Result<()> {
        self.check(by.len(), &rows)?;
        self.add(Emitted { keys: keys.clone(), by: Some(by), rows });
        Ok(())
    }

    fn check(&self, keys: usize, rows: &RecordBatch) -> Result<()> {
        if keys == rows.num_rows() && rows.schema_ref().fields() == self.schema.fields() {
            return Ok(());
        }
        Err(Error::InternalError(format!(
            "an operator emitted {} rows of {} under {keys} keys, expected {}",
            rows.num_rows(),
            rows.schema_ref(),
            self.schema
        )))
    }

    fn add(&mut self, emitted: Emitted) {
        if emitted.rows.num_rows() > 0 {
            self.emitted.push(emitted);
        }
    }

    /// Puts rows of a key quarantined, of which there may be none, and says why.
    pub fn quarantine(&mut self, rows: &[RowAt], reason: String) {
        self.quarantined.push(Quarantined { rows: rows.to_vec(), reason });
    }

    /// The rows that were put quarantined.
    pub fn take_quarantined(&mut self) -> Vec<Quarantined> {
        std::mem::take(&mut self.quarantined)
    }

    /// All rows, in order.
    pub fn into_rows(mut self) -> Result<RecordBatch> {
        if self.emitted.len() == 1 && self.emitted[0].is_sorted() {
            return Ok(self.emitted.remove(0).rows);
        }
        let emitted = self.emitted.into_iter().map(Emitted::spread).collect::<Result<Vec<_>>>()?;
        let addresses = (0..).zip(&emitted).flat_map(|(part, (keys, _))| (0..keys.len()).map(move |row| (part, row)));
        let mut order: Vec<(usize, usize)> = addresses.collect();
        order.sort_by(|a, b| emitted[a.0].0.cmp_at(a.1, &emitted[b.0].0, b.1));
        let picks: Vec<Pick> = order.iter().map(|&(part, row)| Pick::new(part, row)).collect();
        let column = |(number, field): (usize, &FieldRef)| {
            let parts: Vec<&dyn Array> = emitted.iter().map(|(_, rows)| rows.column(number).as_ref()).collect();
            gather(field.data_type(), &parts, &picks)
        };
        let columns = self.schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(picks.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

fn is_sorted(keys: &Keys) -> bool {
    (1..keys.len()).all(|row| keys.cmp_at(row - 1, keys, row).is_le())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, ListArray, NullArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::{Field, Schema};

    use super::*;

    #[test]
    fn rows_that_do_not_fit_together_are_refused() {
        let items: ArrayRef = Arc::new(NullArray::new(1 << 30)); // they take no memory
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let list = ListArray::new(item, OffsetBuffer::new(vec![0, 1 << 30].into()), items, None);
        let schema = Arc::new(Schema::new(vec![Field::new("out", list.data_type().clone(), true)]));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(list)]).unwrap();
        let mut out = Output::new(schema);
        for key in [1, 2] {
            let key: ArrayRef = Arc::new(Int64Array::from(vec![key]));
            out.emit(Keys::new(&[key]).unwrap(), rows.clone()).unwrap();
        }
        let said = out.into_rows().unwrap_err().to_string();
        assert!(
            said.starts_with("a column would hold more than 2147483647 bytes of text or binary, or items"),
            "{said}"
        );
    }
}
