//! `TimerValues` and `ExpiredTimerInfo`: the times that calls of a processor are given (the same names as in Spark).

use pyo3::prelude::*;
use tidemill_core::operator::{Pass, TimeMode};

use crate::spark::class_of;

/// The clocks that a call of a processor sees, in ms since the epoch.
///
/// Both are −1 if the time mode is None. The watermark is 0 if there is none.
#[pyclass(name = "TimerValues", module = "tidemill._native", frozen)]
pub(crate) struct PyTimerValues {
    processing_ms: i64,
    watermark_ms: i64,
}

impl PyTimerValues {
    /// Make the clocks of a pass for this time mode.
    pub(super) fn of(pass: &Pass, mode: TimeMode) -> Self {
        match mode {
            TimeMode::None => Self { processing_ms: -1, watermark_ms: -1 },
            _ => Self { processing_ms: pass.batch_time_ms, watermark_ms: pass.watermark_ms.unwrap_or(0) },
        }
    }
}

#[pymethods]
impl PyTimerValues {
    /// PySpark's class, so that `isinstance` checks of processors succeed.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        class_of(slf, "pyspark.sql.streaming.stateful_processor", "TimerValues")
    }

    /// Return the batch time.
    #[pyo3(name = "getCurrentProcessingTimeInMs")]
    fn processing_time(&self) -> i64 {
        self.processing_ms
    }

    /// Return the watermark.
    #[pyo3(name = "getCurrentWatermarkInMs")]
    fn watermark(&self) -> i64 {
        self.watermark_ms
    }

    fn __repr__(&self) -> String {
        format!("TimerValues(processing time {} ms, watermark {} ms)", self.processing_ms, self.watermark_ms)
    }
}

/// The timer for which `handleExpiredTimer` is called.
#[pyclass(name = "ExpiredTimerInfo", module = "tidemill._native", frozen)]
pub(crate) struct PyExpiredTimerInfo {
    pub(super) expiry_ms: i64,
}

#[pymethods]
impl PyExpiredTimerInfo {
    /// PySpark's class, so that `isinstance` checks of processors succeed.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        class_of(slf, "pyspark.sql.streaming.stateful_processor", "ExpiredTimerInfo")
    }

    /// Return the time at which the timer expired, in ms since the epoch.
    #[pyo3(name = "getExpiryTimeInMs")]
    fn expiry_time(&self) -> i64 {
        self.expiry_ms
    }

    fn __repr__(&self) -> String {
        format!("ExpiredTimerInfo({} ms)", self.expiry_ms)
    }
}
