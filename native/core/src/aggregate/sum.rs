//! `sum`: bigint for integers, double for floats, decimal for decimals. Overflow is an error, as in ANSI SQL.
//!
//! Its partial is the sum itself, null if there was no value. INVARIANT: values are added one by one in the order
//! given.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, DecimalType};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::Accumulator;
use super::number::Number;
use crate::ddl::ddl;
use crate::error::{Error, Result};

/// How to add two numbers within bounds.
pub(super) trait Adding: Number {
    /// Return the sum, and whether it overflowed. `limit` is the least number that is too large; `None` for no limit.
    fn plus(self, other: Self, limit: Option<Self>) -> (Self, bool);
}

impl Adding for i64 {
    #[inline]
    fn plus(self, other: Self, _limit: Option<Self>) -> (Self, bool) {
        self.overflowing_add(other)
    }
}

impl Adding for f64 {
    #[inline]
    fn plus(self, other: Self, _limit: Option<Self>) -> (Self, bool) {
        (self + other, false)
    }
}

impl Adding for i128 {
    #[inline]
    fn plus(self, other: Self, limit: Option<Self>) -> (Self, bool) {
        let (sum, overflowed) = self.overflowing_add(other);
        (sum, overflowed || limit.is_some_and(|limit| sum >= limit || sum <= -limit))
    }
}

pub(super) struct Sum<N: Adding> {
    label: String,
    data_type: DataType,
    limit: Option<N>,
    sums: Vec<N>,
    some: Vec<bool>,
}

/// Return an accumulator of sums of type `result`.
pub(super) fn accumulator(label: String, result: &DataType, groups: usize) -> Result<Box<dyn Accumulator>> {
    Ok(match result {
        DataType::Int64 => Box::new(Sum::<i64>::new(label, result.clone(), None, groups)),
        DataType::Float64 => Box::new(Sum::<f64>::new(label, result.clone(), None, groups)),
        DataType::Decimal128(precision, _) => {
            Box::new(Sum::<i128>::new(label, result.clone(), Some(decimal_limit(*precision)), groups))
        }
        other => return Err(Error::InternalError(format!("a sum cannot have type {other}"))),
    })
}

/// Return the least unscaled number with more than `precision` digits.
pub(super) fn decimal_limit(precision: u8) -> i128 {
    Decimal128Type::MAX_FOR_EACH_PRECISION[usize::from(precision.min(Decimal128Type::MAX_PRECISION))] + 1
}

impl<N: Adding> Sum<N> {
    pub(super) fn new(label: String, data_type: DataType, limit: Option<N>, groups: usize) -> Self {
        Self { label, data_type, limit, sums: vec![N::default(); groups], some: vec![false; groups] }
    }

    /// The sum of each group; `None` if it had no value.
    pub(super) fn sums(&self) -> impl Iterator<Item = Option<N>> {
        self.sums.iter().zip(&self.some).map(|(&sum, &some)| some.then_some(sum))
    }

    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn fold(&mut self, column: &ArrayRef, groups: &[u32]) -> Result<()> {
        let (sums, some, limit) = (&mut self.sums, &mut self.some, self.limit);
        let mut overflowed = false;
        N::each(column, |row, value| {
            let group = groups[row] as usize;
            let (sum, over) = sums[group].plus(value, limit);
            sums[group] = sum;
            some[group] = true;
            overflowed |= over;
        })?;
        if overflowed { Err(overflow(&self.label, &self.data_type)) } else { Ok(()) }
    }

    pub(super) fn column(&self) -> ArrayRef {
        let nulls = NullBuffer::from(self.some.clone());
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        let sums = PrimitiveArray::<N::Arrow>::new(self.sums.clone().into(), nulls);
        Arc::new(sums.with_data_type(self.data_type.clone()))
    }
}

/// Return the error for a number that the result type cannot hold.
pub(super) fn overflow(label: &str, result: &DataType) -> Error {
    Error::InvalidInput(format!(
        "{label} overflows {}\nhint: cast the column to a decimal or a double before the aggregation",
        ddl(result)
    ))
}

impl<N: Adding> Accumulator for Sum<N> {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, N::default());
        self.some.resize(groups, false);
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        values.map_or(Ok(()), |values| self.fold(values, groups))
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.fold(&partials[0], groups)
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.column()])
    }

    fn result(&self) -> Result<ArrayRef> {
        Ok(self.column())
    }
}
