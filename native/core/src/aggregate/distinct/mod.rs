//! `approx_count_distinct`: an estimate of the number of distinct values by HyperLogLog++, as in Spark. Its partial is
//! the sketch.
//!
//! Hash, registers and correction are Spark's, so the same values give the same number. INVARIANT: a sketch depends
//! only on the set of values, not on their order, so partials may be combined in any order.

mod bias;
mod hash;
mod sketch;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType;

use super::Accumulator;
use crate::error::Result;
use crate::offsets;
use sketch::Sketch;

/// Bits of a hash that select a register: the range for which there are tables.
pub(super) const PRECISIONS: std::ops::RangeInclusive<u32> = 4..=18;

/// Whether the values of a column can be hashed.
pub(super) fn is_hashed(data_type: &DataType) -> bool {
    hash::is_hashed(data_type)
}

pub(super) struct ApproximateCount {
    precision: u32,
    sketches: Vec<Sketch>,
}

impl ApproximateCount {
    pub(super) fn new(precision: u32, groups: usize) -> Self {
        Self { precision, sketches: vec![Sketch::default(); groups] }
    }
}

impl Accumulator for ApproximateCount {
    fn grow(&mut self, groups: usize) {
        self.sketches.resize(groups, Sketch::default());
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let Some(values) = values else { return Ok(()) };
        let (sketches, precision) = (&mut self.sketches, self.precision);
        hash::each(values.as_ref(), |row, hash| sketches[groups[row] as usize].add(hash, precision))
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        for (partial, &group) in partials[0].as_binary::<i32>().iter().zip(groups) {
            if let Some(bytes) = partial {
                self.sketches[group as usize].merge(bytes, self.precision);
            }
        }
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        let bytes = self.sketches.iter().map(|sketch| sketch.to_bytes(self.precision));
        Ok(vec![Arc::new(offsets::binary(bytes)?)])
    }

    fn result(&self) -> Result<ArrayRef> {
        let counts = self.sketches.iter().map(|sketch| sketch.estimate(self.precision));
        Ok(Arc::new(counts.collect::<Int64Array>()))
    }
}
