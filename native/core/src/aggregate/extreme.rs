//! `min` and `max`. The partial is the value itself, null if there was no value. Of equal values the first one stays.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;

use super::number::values;
use super::pick::Picks;
use super::{Accumulator, compare};
use crate::error::Result;

/// Which of two values to keep.
pub(super) trait Side: Copy + Send + 'static {
    /// Whether a value that compares like this with the best so far replaces it.
    fn replaces(self, order: Ordering) -> bool;
}

#[derive(Clone, Copy)]
pub(super) struct Least;

#[derive(Clone, Copy)]
pub(super) struct Greatest;

impl Side for Least {
    #[inline]
    fn replaces(self, order: Ordering) -> bool {
        order.is_lt()
    }
}

impl Side for Greatest {
    #[inline]
    fn replaces(self, order: Ordering) -> bool {
        order.is_gt()
    }
}

/// Return an accumulator of extremes of type `data_type`. Numbers and times have typed ones; other types pick rows.
pub(super) fn accumulator<S: Side>(side: S, data_type: DataType, groups: usize) -> Box<dyn Accumulator> {
    match data_type {
        DataType::Int8 => typed::<Int8Type, S>(side, data_type, groups, Ord::cmp),
        DataType::Int16 => typed::<Int16Type, S>(side, data_type, groups, Ord::cmp),
        DataType::Int32 => typed::<Int32Type, S>(side, data_type, groups, Ord::cmp),
        DataType::Int64 => typed::<Int64Type, S>(side, data_type, groups, Ord::cmp),
        DataType::Date32 => typed::<Date32Type, S>(side, data_type, groups, Ord::cmp),
        DataType::Timestamp(_, _) => typed::<TimestampMicrosecondType, S>(side, data_type, groups, Ord::cmp),
        DataType::Decimal128(_, _) => typed::<Decimal128Type, S>(side, data_type, groups, Ord::cmp),
        DataType::Float32 => typed::<Float32Type, S>(side, data_type, groups, compare::floats),
        DataType::Float64 => typed::<Float64Type, S>(side, data_type, groups, compare::floats),
        _ => Box::new(Picked { picks: Picks::new(&data_type, groups), side }),
    }
}

fn typed<T: ArrowPrimitiveType, S: Side>(
    side: S,
    data_type: DataType,
    groups: usize,
    order: impl Fn(&T::Native, &T::Native) -> Ordering + Send + 'static,
) -> Box<dyn Accumulator> {
    let (best, some) = (vec![T::Native::usize_as(0); groups], vec![false; groups]);
    Box::new(Typed::<T, S, _> { side, data_type, order, best, some })
}

struct Typed<T: ArrowPrimitiveType, S: Side, O> {
    side: S,
    data_type: DataType,
    order: O,
    best: Vec<T::Native>,
    some: Vec<bool>,
}

impl<T, S, O> Typed<T, S, O>
where
    T: ArrowPrimitiveType,
    S: Side,
    O: Fn(&T::Native, &T::Native) -> Ordering,
{
    fn fold(&mut self, column: &ArrayRef, groups: &[u32]) {
        let (best, some, side, order) = (&mut self.best, &mut self.some, self.side, &self.order);
        values::<T>(column.as_ref(), |row, value| {
            let group = groups[row] as usize;
            if !some[group] || side.replaces(order(&value, &best[group])) {
                best[group] = value;
                some[group] = true;
            }
        });
    }
}

impl<T, S, O> Accumulator for Typed<T, S, O>
where
    T: ArrowPrimitiveType,
    S: Side,
    O: Fn(&T::Native, &T::Native) -> Ordering + Send,
{
    fn grow(&mut self, groups: usize) {
        self.best.resize(groups, T::Native::usize_as(0));
        self.some.resize(groups, false);
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        if let Some(values) = values {
            self.fold(values, groups);
        }
        Ok(())
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.fold(&partials[0], groups);
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.result()?])
    }

    fn result(&self) -> Result<ArrayRef> {
        let nulls = NullBuffer::from(self.some.clone());
        let best = PrimitiveArray::<T>::new(self.best.clone().into(), Some(nulls));
        Ok(Arc::new(best.with_data_type(self.data_type.clone())))
    }
}

struct Picked<S: Side> {
    picks: Picks,
    side: S,
}

impl<S: Side> Picked<S> {
    fn fold(&mut self, column: &ArrayRef, groups: &[u32]) {
        let source = self.picks.source(column);
        for (row, &group) in groups.iter().enumerate() {
            if column.is_null(row) {
                continue;
            }
            let order = |(best, at): (&ArrayRef, usize)| compare::rows(column.as_ref(), row, best.as_ref(), at);
            if self.picks.picked(group).is_none_or(|picked| self.side.replaces(order(picked))) {
                self.picks.pick(group, source, row);
            }
        }
    }
}

impl<S: Side> Accumulator for Picked<S> {
    fn grow(&mut self, groups: usize) {
        self.picks.grow(groups);
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        if let Some(values) = values {
            self.fold(values, groups);
        }
        Ok(())
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.fold(&partials[0], groups);
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.result()?])
    }

    fn result(&self) -> Result<ArrayRef> {
        self.picks.column()
    }
}
