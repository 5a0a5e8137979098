//! The loop over the keys of a visit, for every way of calling a function, and the handling of keys whose calls fail.

use std::ops::Range;

use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::Visit;

use super::declaration::UserFunction;
use super::returned_builder::ReturnedBuilder;
use crate::error::external;
use crate::lent_value::KeyOutcome;

/// A way of calling a function.
pub(super) trait KeyCalls {
    /// Make all calls for key `number`, which has these rows. Their output is added to `to`.
    fn call(&mut self, number: u32, rows: Range<usize>, to: &mut ReturnedBuilder) -> Result<KeyOutcome>;

    /// Retire the state that was lent to the calls for a key, because they failed.
    fn retire(&mut self) -> PyResult<()>;
}

/// Make the calls for each key of a visit.
///
/// INVARIANT: a key is quarantined only for an error of the user's code, or for a key or row that Python has no object
/// for. If its result cannot be written, the pass fails.
pub(super) fn call_each_key(
    py: Python<'_>,
    calls: &mut impl KeyCalls,
    visit: &Visit<'_>,
    user: &UserFunction,
    to: &mut ReturnedBuilder,
) -> Result<()> {
    let shapes = (&user.state.shape, &user.output);
    let mut start = 0;
    for (number, &end) in (0u32..).zip(visit.ends) {
        let place = number as usize;
        match calls.call(number, start..end, to) {
            Ok(outcome) => {
                to.finish_key(py, number, shapes, visit.exists[place], &outcome).map_err(external)?;
            }
            Err(error) => {
                let reason = user.caller.on_error.reason(py, error)?;
                calls.retire().map_err(external)?;
                to.fail_key(reason, visit.deadlines[place]);
            }
        }
        start = end;
    }
    Ok(())
}

/// Return the chunk of the first of these rows, if there are rows.
pub(super) fn first_chunk(visit: &Visit<'_>, rows: &Range<usize>) -> Option<u32> {
    visit.rows.get(rows.start).filter(|_| !rows.is_empty()).map(|row| row.chunk)
}
