//! The module's functions that belong to no class: key hashes, splitting rows by them, time bounds, merge planning.

use arrow_array::{RecordBatch, UInt32Array, UInt64Array};
use pyo3::prelude::*;
use tidemill_core::key::{self, Keys};
use tidemill_core::{map, operator, range, schema, time};

use crate::arrow::{array_in, array_out, batch_in, batch_out};
use crate::error::{Raise, invalid};
use crate::operator::{GivenPlaces, places_in};

/// XXH3-64 of the canonical bytes of each row, columns chained by seed.
#[pyfunction]
pub(crate) fn key_hashes<'py>(py: Python<'py>, columns: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let batch = batch_in(columns)?;
    let hashes = py.detach(|| {
        let keys = Keys::with_sub_keys(batch.columns(), &[], batch.num_rows())?;
        Ok(UInt64Array::from(keys.hashes().to_vec()))
    });
    array_out(py, &hashes.raise(py)?)
}

/// The row numbers in the order of (hash, key bytes); rows of one key keep the order they had.
#[pyfunction]
pub(crate) fn key_order<'py>(py: Python<'py>, columns: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let batch = batch_in(columns)?;
    let order = py.detach(|| Ok(Keys::with_sub_keys(batch.columns(), &[], batch.num_rows())?.order())).raise(py)?;
    array_out(py, &UInt32Array::from(order))
}

/// The key hash of one string.
#[pyfunction]
pub(crate) fn text_hash(text: &str) -> u64 {
    key::text_hash(text)
}

/// The names of an operator's columns in its map, each once.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
pub(crate) fn distinct_names(key: Vec<String>, sub_key: Vec<String>, value: Vec<String>) -> [Vec<String>; 3] {
    let [key, sub_key, value] =
        [&key, &sub_key, &value].map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    schema::distinct_names(&key, &sub_key, &value)
}

/// `rows` split by key hash, one batch a range, in the order they had.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
pub(crate) fn partition<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    key: Vec<String>,
    bounds: Vec<u64>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let batch = batch_in(rows)?;
    let columns = key
        .iter()
        .map(|name| batch.column_by_name(name).cloned().ok_or_else(|| no_column(py, name, &batch)))
        .collect::<PyResult<Vec<_>>>()?;
    if bounds == [u64::MAX] {
        return Ok(vec![batch_out(py, &batch)?]); // no hash is needed
    }
    let parts = py
        .detach(|| {
            let keys = Keys::with_sub_keys(&columns, &[], batch.num_rows())?;
            range::partition(&batch, &keys, &bounds)
        })
        .raise(py)?;
    parts.iter().map(|part| batch_out(py, part)).collect()
}

/// Rows sorted by their places, each with its number among all rows; None if they are sorted.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
pub(crate) fn in_plan_order<'py>(
    py: Python<'py>,
    chunks: Vec<Bound<'py, PyAny>>,
    places: Vec<GivenPlaces<'py>>,
) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let chunks = chunks.iter().map(batch_in).collect::<PyResult<Vec<_>>>()?;
    let places = places.iter().map(|(blocks, rows)| places_in(blocks, rows)).collect::<PyResult<Vec<_>>>()?;
    let sorted = py.detach(|| operator::in_plan_order(&chunks, &places)).raise(py)?;
    sorted.map(|batches| batches.iter().map(|batch| batch_out(py, batch)).collect()).transpose()
}

fn no_column(py: Python<'_>, name: &str, batch: &RecordBatch) -> PyErr {
    let names: Vec<&str> = batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    invalid(py, &format!("cannot split rows by `{name}`: their columns are {}", names.join(", ")))
}

/// (least, greatest) time of a timestamp or date column in ms since the epoch, floored; None if all are null.
#[pyfunction]
pub(crate) fn time_bounds_ms(py: Python<'_>, column: &Bound<'_, PyAny>) -> PyResult<Option<(i64, i64)>> {
    let column = array_in(column)?;
    py.detach(|| time::bounds_ms(column.as_ref())).raise(py)
}

/// Which times of a timestamp or date column are after `limit_ms`.
#[pyfunction]
pub(crate) fn after_ms<'py>(py: Python<'py>, column: &Bound<'py, PyAny>, limit_ms: i64) -> PyResult<Bound<'py, PyAny>> {
    let column = array_in(column)?;
    let found = py.detach(|| time::after_ms(column.as_ref(), limit_ms)).raise(py)?;
    array_out(py, &found)
}

/// How many of the newest runs to merge, given the rows of each run, oldest first. 1: none; len(rows): all.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
pub(crate) fn merge_count(rows: Vec<u64>) -> usize {
    map::merge_count(&rows)
}
