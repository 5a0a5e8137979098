//! Converts dates and timestamps to Python's `date` and `datetime` in the pipeline's time zone, and back. A `Zone` says
//! whether datetimes are naive or aware.
//!
//! Objects are made from their pickled form (`datetime(bytes)`), which is the fastest way with the limited API. For
//! zones other than UTC, `zoneinfo` is asked for the offset once for each hour of data.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDate, PyDateTime, PyDict, PyType};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;
const DAY_US: i64 = 24 * HOUR_US;

/// The years that Python's dates have, in days since the epoch.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// The time zone in which instants are shown.
pub(crate) struct Zone {
    /// `None`: UTC.
    named: Option<Named>,
    /// The `tzinfo` of shown instants; `None`: they are naive.
    shown: Option<Py<PyAny>>,
}

struct Named {
    name: String,
    zone: Py<PyAny>,
    /// By hour since the epoch: the offset of the whole hour; `None` if the offset changes within it.
    offsets: Mutex<HashMap<i64, Option<Offset>>>,
}

/// Local time minus UTC, and Python's `fold`: whether this local time occurs for the second time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Offset {
    us: i64,
    fold: bool,
}

impl Zone {
    /// Return the zone `name`, in which instants are naive. `InvalidInput` if `zoneinfo` does not know it.
    pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        if matches!(name, "UTC" | "Etc/UTC" | "Z") {
            return Ok(Self { named: None, shown: None });
        }
        let zone = zone_info(py, name)?;
        Ok(Self { named: Some(Named { name: name.to_owned(), zone, offsets: Mutex::default() }), shown: None })
    }

    /// Return the zone `name`, in which instants are aware.
    pub(crate) fn aware(py: Python<'_>, name: &str) -> PyResult<Self> {
        let shown = zone_info(py, if name == "Z" { "UTC" } else { name })?;
        Ok(Self { shown: Some(shown), ..Self::named(py, name)? })
    }

    /// Make a datetime in this zone from an instant.
    pub(super) fn instant<'py>(&self, py: Python<'py>, us: i64) -> PyResult<Bound<'py, PyAny>> {
        let (us, fold) = match &self.named {
            None => (us, false),
            Some(named) => {
                let offset = named.offset(py, us)?;
                (us.saturating_add(offset.us), offset.fold)
            }
        };
        match &self.shown {
            None => naive(py, us, fold),
            Some(zone) => Ok(class(py)?.call1((state(py, us, fold)?, zone))?),
        }
    }

    /// Return the instant of a datetime. A naive datetime is in this zone.
    pub(crate) fn instant_of(&self, datetime: &Bound<'_, PyAny>) -> PyResult<i64> {
        let py = datetime.py();
        let epochs = Epochs::get(py)?;
        if !datetime.getattr(intern!(py, "tzinfo"))?.is_none() {
            return us_between(datetime, epochs.aware.bind(py));
        }
        match &self.named {
            None => us_between(datetime, epochs.naive.bind(py)),
            Some(named) => {
                let change = PyDict::new(py);
                change.set_item(intern!(py, "tzinfo"), &named.zone)?;
                let aware = datetime.call_method(intern!(py, "replace"), (), Some(&change))?;
                us_between(&aware, epochs.aware.bind(py))
            }
        }
    }
}

impl Named {
    fn offset(&self, py: Python<'_>, us: i64) -> PyResult<Offset> {
        let hour = us.div_euclid(HOUR_US);
        let known = self.offsets.lock().unwrap_or_else(PoisonError::into_inner).get(&hour).copied();
        let steady = match known {
            Some(steady) => steady,
            None => {
                let start = self.ask(py, hour * HOUR_US)?;
                let steady = (start == self.ask(py, (hour + 1) * HOUR_US - 1)?).then_some(start);
                self.offsets.lock().unwrap_or_else(PoisonError::into_inner).insert(hour, steady);
                steady
            }
        };
        steady.map_or_else(|| self.ask(py, us), Ok)
    }

    fn ask(&self, py: Python<'_>, us: i64) -> PyResult<Offset> {
        let change = PyDict::new(py);
        change.set_item(intern!(py, "tzinfo"), &self.zone)?;
        let utc = naive(py, us, false)?.call_method(intern!(py, "replace"), (), Some(&change))?;
        let local = self.zone.bind(py).call_method1(intern!(py, "fromutc"), (utc,))?;
        let fold = local.getattr(intern!(py, "fold"))?.is_truthy()?;
        let offset = local.call_method0(intern!(py, "utcoffset"))?;
        Ok(Offset { us: us_of(&offset)?, fold })
    }
}

impl std::fmt::Display for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.named.as_ref().map_or("UTC", |named| named.name.as_str()))
    }
}

fn zone_info(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    let zone = py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,));
    Ok(zone.map_err(|_| crate::error::invalid(py, &format!("unknown time zone `{name}`")))?.unbind())
}

/// Make a naive datetime from its distance to 1970-01-01 00:00.
pub(super) fn naive(py: Python<'_>, us: i64, fold: bool) -> PyResult<Bound<'_, PyAny>> {
    class(py)?.call1((state(py, us, fold)?,))
}

fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "datetime", "datetime")
}

/// Make the pickled form of a datetime.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "each part is in its range")]
fn state(py: Python<'_>, us: i64, fold: bool) -> PyResult<Bound<'_, PyBytes>> {
    let (days, in_day) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let [year_high, year_low, month, day] = civil(py, days)?;
    let (seconds, us) = (in_day / SECOND_US, in_day % SECOND_US);
    let state = [
        year_high,
        year_low,
        month | u8::from(fold) << 7,
        day,
        (seconds / 3_600) as u8,
        (seconds / 60 % 60) as u8,
        (seconds % 60) as u8,
        (us >> 16) as u8,
        (us >> 8) as u8,
        us as u8,
    ];
    Ok(PyBytes::new(py, &state))
}

/// Make a date from its distance to 1970-01-01.
pub(super) fn date(py: Python<'_>, days: i64) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "datetime", "date")?.call1((PyBytes::new(py, &civil(py, days)?),))
}

/// The distance of a naive datetime from 1970-01-01 00:00.
pub(super) fn naive_us(datetime: &Bound<'_, PyDateTime>) -> PyResult<i64> {
    us_between(datetime, Epochs::get(datetime.py())?.naive.bind(datetime.py()))
}

/// The distance of a date from 1970-01-01.
pub(super) fn date_days(date: &Bound<'_, PyDate>) -> PyResult<i64> {
    let ordinal: i64 = date.call_method0(intern!(date.py(), "toordinal"))?.extract()?;
    Ok(ordinal - 719_163)
}

/// High and low byte of the year, month, day (Howard Hinnant, "chrono-compatible low-level date algorithms").
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "each part is in its range")]
fn civil(py: Python<'_>, days: i64) -> PyResult<[u8; 4]> {
    if !DAYS.contains(&days) {
        let text = format!("a time is {days} days from 1970-01-01, outside the years 1 to 9999 that Python supports");
        return Err(crate::error::invalid(py, &text));
    }
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Ok([(year >> 8) as u8, year as u8, month as u8, day as u8])
}

/// 1970-01-01 00:00, naive and in UTC.
struct Epochs {
    naive: Py<PyAny>,
    aware: Py<PyAny>,
}

impl Epochs {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static EPOCHS: PyOnceLock<Epochs> = PyOnceLock::new();
        EPOCHS.get_or_try_init(py, || {
            let naive = naive(py, 0, false)?;
            let change = PyDict::new(py);
            change.set_item("tzinfo", py.import("datetime")?.getattr("timezone")?.getattr("utc")?)?;
            let aware = naive.call_method("replace", (), Some(&change))?;
            Ok(Self { naive: naive.unbind(), aware: aware.unbind() })
        })
    }
}

fn us_between(datetime: &Bound<'_, PyAny>, epoch: &Bound<'_, PyAny>) -> PyResult<i64> {
    us_of(&datetime.sub(epoch)?)
}

fn us_of(delta: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = delta.py();
    let part = |name: &Bound<'_, pyo3::types::PyString>| delta.getattr(name)?.extract::<i64>();
    let (days, seconds) = (part(intern!(py, "days"))?, part(intern!(py, "seconds"))?);
    Ok(days * DAY_US + seconds * SECOND_US + part(intern!(py, "microseconds"))?)
}
