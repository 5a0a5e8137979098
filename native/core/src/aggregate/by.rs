//! `min_by` and `max_by`: the value of the row in which another column is least or greatest.
//!
//! Rows in which that column is null are skipped. Of equal rows the last in plan order wins, as in Spark's `MaxMinBy`;
//! `earliest` keeps the first. The two columns arrive as one struct.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::pick::Picks;
use super::{Accumulator, compare};
use crate::error::Result;

/// The suffix of the partial's second column.
pub(super) const ORDER: &str = ".by";

pub(super) struct By {
    values: Picks,
    orders: Picks,
    /// Whether a row whose order compares like this with the current one replaces it.
    wins: fn(Ordering) -> bool,
}

impl By {
    pub(super) fn least(value: &DataType, order: &DataType, groups: usize) -> Self {
        Self { values: Picks::new(value, groups), orders: Picks::new(order, groups), wins: Ordering::is_le }
    }

    pub(super) fn first_least(value: &DataType, order: &DataType, groups: usize) -> Self {
        Self { wins: Ordering::is_lt, ..Self::least(value, order, groups) }
    }

    pub(super) fn greatest(value: &DataType, order: &DataType, groups: usize) -> Self {
        Self { wins: Ordering::is_ge, ..Self::least(value, order, groups) }
    }

    fn fold(&mut self, values: &ArrayRef, orders: &ArrayRef, groups: &[u32]) {
        let (from_values, from_orders) = (self.values.source(values), self.orders.source(orders));
        for (row, &group) in groups.iter().enumerate() {
            if orders.is_null(row) {
                continue;
            }
            let kept = self.orders.picked(group);
            if kept.is_none_or(|(kept, at)| (self.wins)(compare::rows(orders.as_ref(), row, kept.as_ref(), at))) {
                self.values.pick(group, from_values, row);
                self.orders.pick(group, from_orders, row);
            }
        }
    }
}

impl Accumulator for By {
    fn grow(&mut self, groups: usize) {
        self.values.grow(groups);
        self.orders.grow(groups);
    }

    fn update(&mut self, pairs: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        if let Some(pairs) = pairs {
            let columns = pairs.as_struct().columns();
            self.fold(&columns[0], &columns[1], groups);
        }
        Ok(())
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.fold(&partials[0], &partials[1], groups);
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.values.column()?, self.orders.column()?])
    }

    fn result(&self) -> Result<ArrayRef> {
        self.values.column()
    }
}
