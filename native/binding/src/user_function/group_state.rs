//! `GroupState`: the state and the timeout of one key inside a group function (Spark: `GroupState`).
//!
//! The rules are Spark's. Scala and Python differ in whether a call that does nothing keeps the timeout (`Untouched`).
//! INVARIANT: an object that user code kept beyond its call is retired.

use std::sync::Arc;

use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDate, PyDateTime, PyFloat};
use tidemill_core::operator::{Pass, Timeout};

use crate::error::invalid;
use crate::lent_value::{Current, KeyOutcome, Lendable, LentValue, Settable, StateKind, update};
use crate::spark::{class_of, raised};
use crate::value::{Decoder, Zone, described};

/// PySpark's `GroupState.NO_TIMESTAMP`. A function never sees the timeout that was set before its call.
const NO_TIMESTAMP: i64 = -1;

/// What happens to an earlier timeout if a call changes neither the state nor the timeout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untouched {
    /// It stays set (PySpark).
    Keeps,
    /// It is cleared (Scala).
    Clears,
}

/// The key of a call, with its state and deadline.
pub(crate) struct GroupCall {
    pub(crate) key: Py<PyAny>,
    pub(crate) current: Current,
    pub(crate) has_timed_out: bool,
    /// The deadline before the call.
    pub(crate) deadline: Option<i64>,
}

/// The parts that all keys of a visit share.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) timeout: Timeout,
    pub(crate) untouched: Untouched,
    pub(crate) zone: Arc<Zone>,
    pub(crate) batch_time_ms: i64,
    pub(crate) watermark_ms: Option<i64>,
}

impl Rules {
    /// The rules of a pass.
    pub(crate) fn of(timeout: Timeout, untouched: Untouched, zone: &Arc<Zone>, pass: &Pass) -> Self {
        let zone = Arc::clone(zone);
        Self { timeout, untouched, zone, batch_time_ms: pass.batch_time_ms, watermark_ms: pass.watermark_ms }
    }
}

/// The state and the timeout of one key inside a group function (Spark: `GroupState`, member for member).
///
/// Values are copied in and out: changing an object that `get` returned, or that was passed to `update`, does not
/// change the state. Using the object after its call has returned raises `InvalidInput` (a `ValueError`).
///
/// >>> import tidemill as tm
/// >>> def count(key, rows, state):
/// ...     if state.hasTimedOut:
/// ...         state.remove()
/// ...         return (key, -1)
/// ...     state.update((state.getOption or 0) + sum(1 for _ in rows))
/// ...     state.setTimeoutDuration("10 minutes")
/// ...     return (key, state.get)
/// >>> p = tm.Pipeline("visits")
/// >>> grouped = p.read(tm.Rows("user string")).groupBy("user")
/// >>> counts = grouped.mapGroupsWithState(
/// ...     count, outputSchema="user string, n bigint", stateSchema="bigint", timeoutConf="ProcessingTimeTimeout"
/// ... )
/// >>> tester = tm.testing.Tester(p)
/// >>> tester.batch([("a",), ("a",)], batch_time_ms=0).outputs
/// [('a', 2)]
/// >>> tester.sweep(600_001).outputs
/// [('a', -1)]
#[pyclass(name = "GroupState", module = "tidemill._native")]
pub(crate) struct PyGroupState {
    held: LentValue,
    rules: Arc<Rules>,
    has_timed_out: bool,
    removed: bool,
    /// The deadline before the call.
    before: Option<i64>,
    /// The timeout that this call set: the key times out when the clock has passed it.
    armed_ms: Option<i64>,
}

impl PyGroupState {
    /// Make a state that is not lent yet. `stored` are the columns with the rows of `Current::Stored`.
    pub(crate) fn new(kind: Arc<StateKind>, stored: Arc<Vec<Decoder>>, rules: Arc<Rules>) -> Self {
        Self::over(LentValue::new(kind, stored), rules)
    }

    fn over(held: LentValue, rules: Arc<Rules>) -> Self {
        Self { held, rules, has_timed_out: false, removed: false, before: None, armed_ms: None }
    }

    /// Lend it to the call for a key.
    pub(crate) fn lend(&mut self, lent: GroupCall) {
        self.has_timed_out = lent.has_timed_out;
        self.removed = false;
        self.before = lent.deadline;
        self.armed_ms = None;
        self.held.lend(lent.key, lent.current);
    }

    /// Take it back. From now on using it raises.
    pub(crate) fn take_back(&mut self) -> KeyOutcome {
        let current = self.held.take_back().map_or(Current::Absent, |(_, current)| current);
        let is_touched = self.removed || self.armed_ms.is_some() || matches!(current, Current::Updated(_));
        let deadline = match self.rules.untouched {
            Untouched::Keeps if !is_touched => self.before,
            // Spark fires when its clock is past the timeout, the engine when its clock reaches the deadline.
            _ => self.armed_ms.map(|ms| ms.saturating_add(1)),
        };
        KeyOutcome { current, deadline }
    }

    /// Whether `error` is the error of its last `update`.
    pub(crate) fn is_own_complaint(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.held.is_own_complaint(py, error)
    }

    /// Convert a timeout timestamp to ms. A date (Scala's form) stands for its midnight in the pipeline's time zone.
    fn timestamp_ms(&self, given: &Bound<'_, PyAny>) -> PyResult<i64> {
        let py = given.py();
        let found = if given.is_instance_of::<PyDateTime>() {
            self.rules.zone.instant_of(given).map(|us| us.div_euclid(1_000))
        } else if given.is_instance_of::<PyDate>() {
            midnight(given).and_then(|time| self.rules.zone.instant_of(&time)).map(|us| us.div_euclid(1_000))
        } else {
            whole_ms(given)
        };
        found.map_err(|error| {
            let found = described(given);
            let text = format!("cannot set a timeout timestamp: found {found}, expected ms, a datetime or a date");
            let is_time = given.is_instance_of::<PyDate>() || given.is_instance_of::<PyFloat>();
            if error.is_instance_of::<PyTypeError>(py) && !is_time {
                PyTypeError::new_err(text)
            } else {
                unfit(py, &text)
            }
        })
    }
}

impl Settable for PyGroupState {
    fn held(&mut self) -> &mut LentValue {
        &mut self.held
    }

    fn check_settable(&self, py: Python<'_>) -> PyResult<()> {
        self.held.check_lent(py)
    }

    /// An `update` after `remove` is allowed.
    fn was_set(&mut self) {
        self.removed = false;
    }
}

impl Lendable for PyGroupState {
    /// The replacement is not lent, because a group function is called once for each key.
    fn retire(&mut self) -> Self {
        self.take_back();
        Self::over(self.held.successor(), Arc::clone(&self.rules))
    }
}

#[pymethods]
impl PyGroupState {
    /// PySpark's class, for functions that ask `isinstance`.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        class_of(slf, "pyspark.sql.streaming.state", "GroupState")
    }

    /// Whether the key has a state. False after `remove`, and for a key that has only a timeout.
    #[getter]
    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.exists(py)
    }

    /// The state. Raises `StateNotSet` (a `LookupError`, and a `ValueError` as in PySpark) if there is none.
    #[getter]
    fn get(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.held.get(py)
    }

    /// The state, or None if there is none.
    #[getter(getOption)]
    fn get_option(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.held.value(py)
    }

    /// Whether the function is called because the timeout of the key fired. Then there are no rows.
    #[getter(hasTimedOut)]
    fn has_timed_out(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.check_lent(py)?;
        Ok(self.has_timed_out)
    }

    /// Always -1. PySpark's class has this member and never shows a function another value.
    #[getter(oldTimeoutTimestamp)]
    fn old_timeout_timestamp(&self, py: Python<'_>) -> PyResult<i64> {
        self.held.check_lent(py)?;
        Ok(NO_TIMESTAMP)
    }

    /// Set the state. Allowed after `remove`.
    ///
    /// Raises `InvalidInput` if the value does not fit the schema of the state, and `TypeError` for None.
    #[pyo3(signature = (newValue))]
    #[expect(non_snake_case, reason = "Spark's name of the argument")]
    fn update(slf: &Bound<'_, Self>, newValue: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        update(slf, newValue, |text| raised(py, &py.get_type::<PyTypeError>(), "PySparkTypeError", text, None))
    }

    /// Remove the state.
    fn remove(&mut self, py: Python<'_>) -> PyResult<()> {
        self.held.check_lent(py)?;
        self.held.set(Current::Absent);
        self.removed = true;
        Ok(())
    }

    /// PySpark's value for the absence of a timestamp.
    #[classattr]
    const NO_TIMESTAMP: i64 = NO_TIMESTAMP;

    /// Set the timeout to a duration from the batch time: ms, text such as "10 seconds", or a timedelta.
    ///
    /// The timeout fires when the batch time is later than that. Raises `RuntimeError` without
    /// timeoutConf="ProcessingTimeTimeout", and `ValueError` for less than 1 ms.
    #[pyo3(name = "setTimeoutDuration", signature = (durationMs))]
    #[expect(non_snake_case, reason = "Spark's name of the argument")]
    fn set_timeout_duration(&mut self, py: Python<'_>, durationMs: &Bound<'_, PyAny>) -> PyResult<()> {
        self.held.check_lent(py)?;
        if self.rules.timeout != Timeout::ArmedByBatchTime {
            let text = "cannot set a timeout duration without timeoutConf=\"ProcessingTimeTimeout\"";
            return Err(not_now(py, text));
        }
        let duration_ms = duration_ms(durationMs)?;
        if duration_ms <= 0 {
            return Err(unfit(py, &format!("cannot set a timeout duration of {duration_ms} ms, expected more than 0")));
        }
        self.armed_ms = Some(self.rules.batch_time_ms.saturating_add(duration_ms));
        Ok(())
    }

    /// Set the timeout to an event time (ms since the epoch, a datetime or a date), plus the duration if given.
    ///
    /// A date stands for its midnight; dates and naive datetimes are in the pipeline's time zone. The timeout fires
    /// when the watermark has passed the time. Raises `RuntimeError` without timeoutConf="EventTimeTimeout", and
    /// `ValueError` for a time before the watermark or before 1970.
    #[pyo3(name = "setTimeoutTimestamp", signature = (timestampMs, additionalDuration=None))]
    #[expect(non_snake_case, reason = "Spark's names of the arguments")]
    fn set_timeout_timestamp(
        &mut self,
        py: Python<'_>,
        timestampMs: &Bound<'_, PyAny>,
        additionalDuration: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.held.check_lent(py)?;
        if self.rules.timeout != Timeout::ArmedByEventTime {
            return Err(not_now(py, "cannot set a timeout timestamp without timeoutConf=\"EventTimeTimeout\""));
        }
        let mut time_ms = self.timestamp_ms(timestampMs)?;
        if let Some(more) = additionalDuration {
            time_ms = time_ms.saturating_add(duration_ms(more)?);
        }
        if time_ms <= 0 {
            return Err(unfit(py, &format!("cannot set a timeout timestamp of {time_ms} ms, expected more than 0")));
        }
        if let Some(watermark_ms) = self.rules.watermark_ms.filter(|&watermark_ms| time_ms < watermark_ms) {
            return Err(unfit(
                py,
                &format!(
                    "cannot set a timeout timestamp of {time_ms} ms: it is before the watermark of {watermark_ms} ms"
                ),
            ));
        }
        self.armed_ms = Some(time_ms);
        Ok(())
    }

    /// Return the watermark in ms since the epoch. Raises `RuntimeError` if the stream has no watermark.
    #[pyo3(name = "getCurrentWatermarkMs")]
    fn get_current_watermark_ms(&self, py: Python<'_>) -> PyResult<i64> {
        self.held.check_lent(py)?;
        self.rules
            .watermark_ms
            .ok_or_else(|| not_now(py, "there is no watermark: call .withWatermark(column, delay) before .groupBy"))
    }

    /// Return the batch time in ms since the epoch.
    #[pyo3(name = "getCurrentProcessingTimeMs")]
    fn get_current_processing_time_ms(&self, py: Python<'_>) -> PyResult<i64> {
        self.held.check_lent(py)?;
        Ok(self.rules.batch_time_ms)
    }

    /// Return the clocks, the timeout and the changes made in this call as JSON, as PySpark does. The value is omitted.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        let (defined, updated) = (self.held.exists(py)?, self.held.is_updated(py)?);
        Ok(format!(
            "{{\"optionalValue\": null, \"batchProcessingTimeMs\": {}, \"eventTimeWatermarkMs\": {}, \
             \"timeoutConf\": \"{}\", \"hasTimedOut\": {}, \"watermarkPresent\": {}, \"defined\": {defined}, \
             \"updated\": {updated}, \"removed\": {}, \"timeoutTimestamp\": {}}}",
            self.rules.batch_time_ms,
            self.rules.watermark_ms.unwrap_or(0),
            match self.rules.timeout {
                Timeout::ArmedByBatchTime => "ProcessingTimeTimeout",
                Timeout::ArmedByEventTime => "EventTimeTimeout",
                _ => "NoTimeout",
            },
            self.has_timed_out,
            self.rules.watermark_ms.is_some(),
            self.removed,
            self.armed_ms.unwrap_or(NO_TIMESTAMP),
        ))
    }

    fn __str__(&mut self, py: Python<'_>) -> PyResult<String> {
        self.__repr__(py)
    }

    fn __repr__(&mut self, py: Python<'_>) -> PyResult<String> {
        self.held.described(py, "GroupState", "<undefined>")
    }
}

/// Make the error for a call that is not allowed now.
fn not_now(py: Python<'_>, text: &str) -> PyErr {
    raised(py, &py.get_type::<PyRuntimeError>(), "PySparkRuntimeError", text, None)
}

/// Make the error for an invalid time.
fn unfit(py: Python<'_>, text: &str) -> PyErr {
    raised(py, &py.get_type::<PyValueError>(), "PySparkValueError", text, None)
}

/// Return the midnight at the beginning of a date, as a naive datetime.
fn midnight<'py>(date: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let datetime = PyDateTime::type_object(date.py());
    let time = date.py().import("datetime")?.getattr("time")?.call0()?;
    datetime.call_method1("combine", (date, time))
}

/// Convert a number of ms. The fraction of a float is dropped, as in Spark.
fn whole_ms(ms: &Bound<'_, PyAny>) -> PyResult<i64> {
    match ms.cast::<PyFloat>() {
        #[expect(clippy::cast_possible_truncation, reason = "that is what is meant; what is too large is the greatest")]
        Ok(float) if float.value().is_finite() => Ok(float.value() as i64),
        _ => ms.extract(),
    }
}

/// Convert a duration in ms, text such as `"10 seconds"`, or a `timedelta` to ms.
fn duration_ms(duration: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(ms) = whole_ms(duration) {
        return Ok(ms);
    }
    let py = duration.py();
    let found = py.import("tidemill.units")?.getattr("interval_ms")?.call1((duration,))?.extract();
    found.map_err(|_| {
        let found = described(duration);
        invalid(
            py,
            &format!("invalid duration: found {found}, expected ms, text such as \"10 seconds\" or a timedelta"),
        )
    })
}
