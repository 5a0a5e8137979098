//! The rows that an operator emits in a pass, sorted into the one order that outputs have.
//!
//! INVARIANT: outputs are sorted by (key hash, key bytes, emission number), whatever the order of emission across keys.
//! Rows of one key keep their order.

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{FieldRef, SchemaRef};

use super::RowAt;
use crate::error::{Error, Result};
use crate::gather::{Pick, gather};
use crate::key::Keys;

/// Rows of one key that are quarantined because they could not be applied.
#[derive(Clone, Debug)]
pub struct Quarantined {
    /// The rows, as positions in the chunks of the pass; empty if the key was called only for a timeout.
    pub rows: Vec<RowAt>,
    /// The reason, in one line.
    pub reason: String,
}

/// Rows that were emitted together.
#[derive(Debug)]
struct Emitted {
    keys: Keys,
    /// The number of the key of each row; `None` if each row has the key at its own position.
    by: Option<Vec<u32>>,
    rows: RecordBatch,
}

impl Emitted {
    fn is_sorted(&self) -> bool {
        self.by.as_ref().is_none_or(|by| by.is_sorted()) && is_sorted(&self.keys)
    }

    /// Return the rows with a key for each.
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
    /// Start with no rows.
    #[must_use]
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema, emitted: Vec::new(), quarantined: Vec::new() }
    }

    /// Emit `rows`; `keys` has the key of each row.
    pub fn emit(&mut self, keys: Keys, rows: RecordBatch) -> Result<()> {
        self.check(keys.len(), &rows)?;
        self.add(Emitted { keys, by: None, rows });
        Ok(())
    }

    /// Emit `rows`; row i has key number `by[i]` of `keys`.
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
            "an operator emitted {} rows of {} with {keys} keys, expected rows of {} with a key each",
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

    /// Quarantine rows of a key, possibly none, with the reason.
    pub fn quarantine(&mut self, rows: &[RowAt], reason: String) {
        self.quarantined.push(Quarantined { rows: rows.to_vec(), reason });
    }

    /// Take the quarantined rows.
    pub fn take_quarantined(&mut self) -> Vec<Quarantined> {
        std::mem::take(&mut self.quarantined)
    }

    /// Return all rows, sorted.
    pub fn into_rows(self) -> Result<RecordBatch> {
        Ok(self.into_ordered()?.0)
    }

    /// Return all rows, sorted, and the order number of each.
    ///
    /// Order numbers rise from row to row. They depend on the rows of the same hash group alone, so they are the same
    /// for any cut of the hash space that does not cut a group.
    pub fn into_ordered(mut self) -> Result<(RecordBatch, Vec<i64>)> {
        if self.emitted.len() == 1 && self.emitted[0].is_sorted() {
            let only = self.emitted.remove(0);
            let numbers = match &only.by {
                Some(by) => order_numbers(by.iter().map(|&key| only.keys.hash(key as usize))),
                None => order_numbers(only.keys.hashes().iter().copied()),
            };
            return Ok((only.rows, numbers));
        }
        let emitted = self.emitted.into_iter().map(Emitted::spread).collect::<Result<Vec<_>>>()?;
        let addresses = (0..).zip(&emitted).flat_map(|(part, (keys, _))| (0..keys.len()).map(move |row| (part, row)));
        let mut order: Vec<(usize, usize)> = addresses.collect();
        order.sort_by(|a, b| emitted[a.0].0.cmp_at(a.1, &emitted[b.0].0, b.1));
        let numbers = order_numbers(order.iter().map(|&(part, row)| emitted[part].0.hash(row)));
        let picks: Vec<Pick> = order.iter().map(|&(part, row)| Pick::new(part, row)).collect();
        let column = |(number, field): (usize, &FieldRef)| {
            let parts: Vec<&dyn Array> = emitted.iter().map(|(_, rows)| rows.column(number).as_ref()).collect();
            gather(field.data_type(), &parts, &picks)
        };
        let columns = self.schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(picks.len()));
        Ok((RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?, numbers))
    }
}

/// The leading bits of a key hash that make its group. Key ranges never cut a group.
const GROUP_BITS: u32 = 20;

/// Number rows that are sorted by hash: the group in the upper half, the place within the group in the lower half.
fn order_numbers(hashes: impl Iterator<Item = u64>) -> Vec<i64> {
    let mut next = 0;
    let number = |hash: u64| {
        let group = i64::try_from(hash >> (64 - GROUP_BITS)).unwrap_or(i64::MAX) << 32;
        next = next.max(group);
        next += 1;
        next - 1
    };
    hashes.map(number).collect()
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
    fn order_numbers_count_within_the_groups_of_the_hashes() {
        let group = |number: u64| number << (64 - GROUP_BITS);
        let hashes = [0, 1, group(1) - 1, group(1), group(1) + 5, group(7), u64::MAX];
        let last = (1 << 20) - 1;
        let expected: Vec<i64> = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (7, 0), (last, 0)]
            .iter()
            .map(|&(group, place): &(i64, i64)| (group << 32) + place)
            .collect();
        assert_eq!(order_numbers(hashes.into_iter()), expected);
        for from in [0, 3, 5, 6] {
            assert_eq!(order_numbers(hashes[from..].iter().copied()), expected[from..], "a cut between groups");
        }
    }

    #[test]
    fn rows_that_exceed_one_column_are_refused() {
        let items: ArrayRef = Arc::new(NullArray::new(1 << 30)); // a null array takes no memory
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
            said.starts_with("a column would hold more than 2147483647 bytes of text or binary, or list items\n"),
            "{said}"
        );
    }
}
