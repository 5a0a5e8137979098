//! The rows that an operator emits in a pass, sorted into the one order that outputs have.
//!
//! INVARIANT: outputs are sorted by (key hash, key bytes, emission number), whatever the order of emission across keys.
//! Rows of one key keep their order. Only rows that go to no sink may keep the order of the rows they were emitted for.

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

/// Why rows were emitted. It decides their place in the order of a downstream operator.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Each for a row of the pass.
    Rows(Vec<RowAt>),
    /// Each because it was due at a time, in ms.
    Due(Vec<i64>),
    /// For their keys, once all rows of the pass were known.
    Keys,
    /// Each for its own reason.
    Each(Vec<Place>),
}

impl Origin {
    fn at(&self, row: usize) -> Place {
        match self {
            Self::Rows(rows) => Place::Row(rows[row]),
            Self::Due(times_ms) => Place::Due(times_ms[row]),
            Self::Keys => Place::Key,
            Self::Each(places) => places[row],
        }
    }

    fn is_in_plan_order(&self) -> bool {
        matches!(self, Self::Rows(rows) if rows.is_sorted())
    }

    fn fits(&self, count: usize) -> bool {
        match self {
            Self::Rows(rows) => rows.len() == count,
            Self::Due(times_ms) => times_ms.len() == count,
            Self::Keys => true,
            Self::Each(places) => places.len() == count,
        }
    }
}

/// Return the origin of rows that were emitted because state rows with these deadlines were due.
pub(super) fn due_at(deadlines_ms: &[Option<i64>]) -> Origin {
    Origin::Due(deadlines_ms.iter().map(|ms| ms.unwrap_or(i64::MIN)).collect())
}

/// Why one row was emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// For a row of the pass.
    Row(RowAt),
    /// Because it was due at a time, in ms.
    Due(i64),
    /// For its key.
    Key,
}

/// All rows of a pass, sorted.
#[derive(Debug)]
pub struct Ordered {
    /// The rows.
    pub rows: RecordBatch,
    /// Their order numbers. If rows are sorted by key, they rise from row to row, and depend on the rows of the same hash
    /// group alone, so they are the same for any cut of the hash space that does not cut a group.
    pub numbers: Vec<i64>,
    /// Why they were emitted; for their keys unless that was asked for.
    pub origin: Origin,
}

/// Rows that were emitted together.
#[derive(Debug)]
struct Emitted {
    keys: Keys,
    /// The number of the key of each row; `None` if each row has the key at its own position.
    by: Option<Vec<u32>>,
    rows: RecordBatch,
    origin: Origin,
}

impl Emitted {
    fn is_sorted(&self) -> bool {
        self.by.as_ref().is_none_or(|by| by.is_sorted()) && is_sorted(&self.keys)
    }

    /// Give each row its own key.
    fn spread(self) -> Result<Self> {
        let Some(by) = self.by else { return Ok(self) };
        Ok(Self { keys: self.keys.take(&by)?, by: None, ..self })
    }
}

/// Collects the rows emitted in one pass.
#[derive(Debug)]
pub struct Output {
    schema: SchemaRef,
    emitted: Vec<Emitted>,
    quarantined: Vec<Quarantined>,
    keeps_origins: bool,
    is_for_operators: bool,
}

impl Output {
    /// Start with no rows.
    #[must_use]
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema, emitted: Vec::new(), quarantined: Vec::new(), keeps_origins: false, is_for_operators: false }
    }

    /// Keep why rows are emitted, for `Ordered::places`.
    #[must_use]
    pub fn with_origins(self) -> Self {
        Self { keeps_origins: true, ..self }
    }

    /// The rows go to operators only. If they are emitted at once in the order of the rows that they are for, they keep it.
    #[must_use]
    pub fn for_operators(self) -> Self {
        Self { is_for_operators: true, ..self.with_origins() }
    }

    /// Whether rows should be emitted in the order of the rows that they are for, because that saves sorting them.
    #[must_use]
    pub fn prefers_plan_order(&self) -> bool {
        self.is_for_operators
    }

    /// Emit `rows`; `keys` has the key of each row. `origin` is asked only if origins are kept.
    pub fn emit(&mut self, keys: Keys, rows: RecordBatch, origin: impl FnOnce() -> Origin) -> Result<()> {
        self.check(keys.len(), &rows)?;
        self.add(keys, None, rows, origin)
    }

    /// Emit `rows`; row i has key number `by[i]` of `keys`. `origin` is asked only if origins are kept.
    pub fn emit_by(
        &mut self,
        keys: &Keys,
        by: Vec<u32>,
        rows: RecordBatch,
        origin: impl FnOnce(&[u32]) -> Origin,
    ) -> Result<()> {
        self.check(by.len(), &rows)?;
        let origin = if self.keeps_origins { origin(&by) } else { Origin::Keys };
        self.add(keys.clone(), Some(by), rows, || origin)
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

    fn add(
        &mut self,
        keys: Keys,
        by: Option<Vec<u32>>,
        rows: RecordBatch,
        origin: impl FnOnce() -> Origin,
    ) -> Result<()> {
        let origin = if self.keeps_origins { origin() } else { Origin::Keys };
        if !origin.fits(rows.num_rows()) {
            return Err(Error::InternalError(format!(
                "an operator emitted {} rows without an origin for each",
                rows.num_rows()
            )));
        }
        if rows.num_rows() > 0 {
            self.emitted.push(Emitted { keys, by, rows, origin });
        }
        Ok(())
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
        Ok(self.into_ordered()?.rows)
    }

    /// Return all rows, sorted, with their order numbers and, if they are kept, their origins.
    pub fn into_ordered(mut self) -> Result<Ordered> {
        let stays = |only: &Emitted| (self.is_for_operators && only.origin.is_in_plan_order()) || only.is_sorted();
        if self.emitted.len() == 1 && stays(&self.emitted[0]) {
            let only = self.emitted.remove(0);
            let numbers = match &only.by {
                Some(by) => order_numbers(by.iter().map(|&key| only.keys.hash(key as usize))),
                None => order_numbers(only.keys.hashes().iter().copied()),
            };
            return Ok(Ordered { rows: only.rows, numbers, origin: only.origin });
        }
        let emitted = self.emitted.into_iter().map(Emitted::spread).collect::<Result<Vec<_>>>()?;
        let addresses = (0..).zip(&emitted).flat_map(|(part, one)| (0..one.keys.len()).map(move |row| (part, row)));
        let mut order: Vec<(usize, usize)> = addresses.collect();
        order.sort_by(|a, b| emitted[a.0].keys.cmp_at(a.1, &emitted[b.0].keys, b.1));
        let numbers = order_numbers(order.iter().map(|&(part, row)| emitted[part].keys.hash(row)));
        let places = || order.iter().map(|&(part, row)| emitted[part].origin.at(row)).collect();
        let origin = if self.keeps_origins { Origin::Each(places()) } else { Origin::Keys };
        let picks: Vec<Pick> = order.iter().map(|&(part, row)| Pick::new(part, row)).collect();
        let column = |(number, field): (usize, &FieldRef)| {
            let parts: Vec<&dyn Array> = emitted.iter().map(|one| one.rows.column(number).as_ref()).collect();
            gather(field.data_type(), &parts, &picks)
        };
        let columns = self.schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(picks.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok(Ordered { rows, numbers, origin })
    }
}

/// The leading bits of a key hash that make its group. Key ranges never cut a group.
const GROUP_BITS: u32 = 20;

/// Number rows: the group in the upper half, the place within the group in the lower half if they are sorted by hash, and
/// otherwise their place among all rows.
fn order_numbers(hashes: impl Iterator<Item = u64> + Clone) -> Vec<i64> {
    let group = |hash: u64| i64::try_from(hash >> (64 - GROUP_BITS)).unwrap_or(i64::MAX) << 32;
    if !hashes.clone().is_sorted() {
        return (0..).zip(hashes).map(|(row, hash)| group(hash) + row).collect();
    }
    let mut next = 0;
    let number = |hash: u64| {
        let group = group(hash);
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
            out.emit(Keys::new(&[key]).unwrap(), rows.clone(), || Origin::Keys).unwrap();
        }
        let said = out.into_rows().unwrap_err().to_string();
        assert!(
            said.starts_with("a column would hold more than 2147483647 bytes of text or binary, or list items\n"),
            "{said}"
        );
    }
}
