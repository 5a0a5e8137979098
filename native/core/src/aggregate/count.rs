//! `count`: the number of rows, or of values that are not null. Its partial is the count itself.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};

use super::Accumulator;
use crate::error::Result;

pub(super) struct Count {
    counts: Vec<i64>,
}

impl Count {
    pub(super) fn new(groups: usize) -> Self {
        Self { counts: vec![0; groups] }
    }

    pub(super) fn counts(&self) -> &[i64] {
        &self.counts
    }

    pub(super) fn merge_counts(&mut self, partial: &ArrayRef, groups: &[u32]) {
        for (&group, count) in groups.iter().zip(partial.as_primitive::<Int64Type>()) {
            self.counts[group as usize] += count.unwrap_or(0);
        }
    }
}

impl Accumulator for Count {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        match values.and_then(Array::logical_nulls) {
            None => groups.iter().for_each(|&group| self.counts[group as usize] += 1),
            Some(nulls) => {
                for (&group, valid) in groups.iter().zip(nulls.iter()) {
                    self.counts[group as usize] += i64::from(valid);
                }
            }
        }
        Ok(())
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.merge_counts(&partials[0], groups);
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.result()?])
    }

    fn result(&self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(self.counts.clone())))
    }
}
