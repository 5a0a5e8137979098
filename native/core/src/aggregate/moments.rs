//! Sample `var` and `stddev`, from the count, the mean and the sum of squared distances from the mean. Updates and
//! merges follow Spark's `CentralMomentAgg` (Chan, Golub, LeVeque 1979). The result of a single value is null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_schema::DataType;

use super::Accumulator;
use super::number::{Number, values};
use crate::error::Result;

/// The suffixes of the partial's columns.
pub(super) const PARTIALS: [&str; 3] = [".count", ".mean", ".m2"];

/// Integers up to here are exact in a double.
const EXACT: i128 = 1 << 53;
/// Powers of ten up to here are exact in a double.
const EXACT_SCALE: i8 = 22;

/// Which result to compute from the moments.
#[derive(Clone, Copy)]
pub(super) enum Spread {
    Variance,
    Deviation,
}

#[derive(Clone, Copy, Default)]
struct Moment {
    count: f64,
    mean: f64,
    m2: f64,
}

impl Moment {
    fn add(&mut self, value: f64) {
        let count = self.count + 1.0;
        let delta = value - self.mean;
        let step = delta / count;
        *self = Self { count, mean: self.mean + step, m2: self.m2 + delta * (delta - step) };
    }

    fn merge(&mut self, other: Self) {
        if self.count == 0.0 {
            *self = other; // exact, even if the square of a mean would be infinite
            return;
        }
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        let step = delta / count;
        *self = Self {
            count,
            mean: self.mean + step * other.count,
            m2: self.m2 + other.m2 + delta * step * self.count * other.count,
        };
    }
}

pub(super) struct Moments {
    spread: Spread,
    moments: Vec<Moment>,
}

impl Moments {
    pub(super) fn new(spread: Spread, groups: usize) -> Self {
        Self { spread, moments: vec![Moment::default(); groups] }
    }

    fn column(&self, of: impl Fn(&Moment) -> f64) -> ArrayRef {
        let found = self.moments.iter().map(|moment| (moment.count > 0.0).then(|| of(moment)));
        Arc::new(found.collect::<Float64Array>())
    }
}

impl Accumulator for Moments {
    fn grow(&mut self, groups: usize) {
        self.moments.resize(groups, Moment::default());
    }

    fn update(&mut self, column: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let Some(column) = column else { return Ok(()) };
        let moments = &mut self.moments;
        if let DataType::Decimal128(_, scale) = column.data_type() {
            values::<Decimal128Type>(column, |row, value| {
                moments[groups[row] as usize].add(decimal_as_double(value, *scale));
            });
            return Ok(());
        }
        f64::each(column, |row, value| moments[groups[row] as usize].add(value))
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let [counts, means, m2s] = [0, 1, 2].map(|column: usize| partials[column].as_primitive::<Float64Type>());
        for (row, &group) in groups.iter().enumerate() {
            if counts.is_valid(row) {
                let other = Moment { count: counts.value(row), mean: means.value(row), m2: m2s.value(row) };
                self.moments[group as usize].merge(other);
            }
        }
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.column(|moment| moment.count), self.column(|moment| moment.mean), self.column(|moment| moment.m2)])
    }

    fn result(&self) -> Result<ArrayRef> {
        let spread = |moment: &Moment| match self.spread {
            Spread::Variance => moment.m2 / (moment.count - 1.0),
            Spread::Deviation => (moment.m2 / (moment.count - 1.0)).sqrt(),
        };
        let found = self.moments.iter().map(|moment| (moment.count > 1.0).then(|| spread(moment)));
        Ok(Arc::new(found.collect::<Float64Array>()))
    }
}

/// Return the double nearest to a decimal.
#[expect(clippy::cast_precision_loss, reason = "only values that are exact")]
fn decimal_as_double(unscaled: i128, scale: i8) -> f64 {
    if unscaled.abs() <= EXACT && (0..=EXACT_SCALE).contains(&scale) {
        return unscaled as f64 / 10f64.powi(i32::from(scale));
    }
    // The text is always a valid number, so the fallback is never used.
    format!("{unscaled}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN)
}
