//! The pandas frames that a user's code returned. Python collects those of all keys of a visit
//! (`tidemill.operators.pandas_frames`) and converts them to rows together.

use arrow_array::RecordBatch;
use pyo3::intern;
use pyo3::prelude::*;

use crate::arrow::batch_in;

/// The error of converting frames to rows, and the number of the key whose frames caused it, if a key did.
pub(crate) type Unfinished = (PyErr, Option<u32>);

/// Return all returned rows, and the key number of each.
pub(crate) fn finish(frames: &Bound<'_, PyAny>) -> Result<(RecordBatch, Vec<u32>), Unfinished> {
    let py = frames.py();
    let finished = frames.call_method0(intern!(py, "finish")).map_err(|error| {
        let number = error.value(py).getattr(intern!(py, "number")).and_then(|number| number.extract());
        (error, number.unwrap_or_default())
    })?;
    let taken = || -> PyResult<_> {
        let (rows, counts): (Bound<'_, PyAny>, Vec<(u32, usize)>) = finished.extract()?;
        Ok((batch_in(&rows)?, counts))
    };
    let (rows, counts) = taken().map_err(|error| (error, None))?;
    Ok((rows, counts.into_iter().flat_map(|(key, rows)| std::iter::repeat_n(key, rows)).collect()))
}

/// Return why the frames do not fit if `error` is a `DoesNotFit`, or `None` for any other error.
pub(crate) fn misfit(frames: &Bound<'_, PyAny>, error: &PyErr) -> Option<String> {
    let py = frames.py();
    let class = frames.getattr(intern!(py, "misfit")).ok()?;
    error.value(py).is_instance(&class).ok()?.then(|| error.value(py).to_string())
}
