//! `mean`: a sum and a count, divided at the end. Means of decimals are rounded half up; other means are doubles.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float64Array};
use arrow_buffer::i256;
use arrow_schema::DataType;

use super::Accumulator;
use super::count::Count;
use super::sum::{Adding, Sum, decimal_limit, overflow};
use super::types;
use crate::error::{Error, Result};

/// A sum of a type that can be divided by a count.
trait Dividing: Adding {
    fn divide(sum: &Sum<Self>, counts: &[i64], result: &DataType) -> Result<ArrayRef>;
}

struct Mean<N: Dividing> {
    sum: Sum<N>,
    count: Count,
    result: DataType,
}

/// Return an accumulator of means of type `result` over a column of type `input`.
pub(super) fn accumulator(
    label: String,
    input: &DataType,
    result: &DataType,
    groups: usize,
) -> Result<Box<dyn Accumulator>> {
    let (count, result) = (Count::new(groups), result.clone());
    Ok(match types::sum_of_mean(input) {
        Some(DataType::Float64) => {
            Box::new(Mean { sum: Sum::<f64>::new(label, DataType::Float64, None, groups), count, result })
        }
        Some(sum_type @ DataType::Decimal128(precision, _)) => {
            let sum = Sum::<i128>::new(label, sum_type, Some(decimal_limit(precision)), groups);
            Box::new(Mean { sum, count, result })
        }
        _ => return Err(Error::InternalError(format!("cannot compute the mean of a column of type {input}"))),
    })
}

impl<N: Dividing> Accumulator for Mean<N> {
    fn grow(&mut self, groups: usize) {
        self.sum.grow(groups);
        self.count.grow(groups);
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        self.sum.update(values, groups)?;
        self.count.update(values, groups)
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.sum.fold(&partials[0], groups)?;
        self.count.merge_counts(&partials[1], groups);
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.sum.column(), self.count.result()?])
    }

    fn result(&self) -> Result<ArrayRef> {
        N::divide(&self.sum, self.count.counts(), &self.result)
    }
}

impl Dividing for f64 {
    #[expect(clippy::cast_precision_loss, reason = "no key has 2**53 rows")]
    fn divide(sum: &Sum<Self>, counts: &[i64], _result: &DataType) -> Result<ArrayRef> {
        let means = sum.sums().zip(counts).map(|(sum, &count)| Some(sum? / count as Self));
        Ok(Arc::new(means.collect::<Float64Array>()))
    }
}

impl Dividing for i128 {
    fn divide(sum: &Sum<Self>, counts: &[i64], result: &DataType) -> Result<ArrayRef> {
        let (DataType::Decimal128(precision, scale), DataType::Decimal128(_, from)) = (result, sum.data_type()) else {
            return Err(Error::InternalError(format!("a mean of decimals cannot have type {result}")));
        };
        let label = sum.label();
        let factor = i256::from_i128(10).wrapping_pow(u32::from((scale - from).unsigned_abs()));
        let limit = i256::from_i128(decimal_limit(*precision));
        let means = sum.sums().zip(counts).map(|(sum, &count)| {
            let Some(sum) = sum else { return Ok(None) };
            let mean = half_up(i256::from_i128(sum).wrapping_mul(factor), i256::from_i128(Self::from(count)));
            match mean.filter(|mean| mean.wrapping_abs() < limit).and_then(i256::to_i128) {
                Some(mean) => Ok(Some(mean)),
                None => Err(overflow(label, result)),
            }
        });
        let means = means.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(means.with_precision_and_scale(*precision, *scale)?))
    }
}

/// Return `a / b` for a positive `b`, rounded half away from zero.
fn half_up(a: i256, b: i256) -> Option<i256> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    let away = rest.wrapping_abs().wrapping_mul(i256::from_i128(2)) >= b;
    let step = if a.is_negative() { i256::MINUS_ONE } else { i256::ONE };
    Some(if away { quotient.wrapping_add(step) } else { quotient })
}
