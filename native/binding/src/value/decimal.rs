//! Converts between `decimal.Decimal` and unscaled 128-bit numbers. Both ways are exact: too many digits are refused.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyType};

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Make a `decimal.Decimal` from an unscaled number, independent of the decimal context.
pub(super) fn shown(py: Python<'_>, unscaled: i128, scale: i8) -> PyResult<Bound<'_, PyAny>> {
    CLASS.import(py, "decimal", "Decimal")?.call1((text(unscaled, scale),))
}

/// Convert a `Decimal` or int to an unscaled number; `None` for any other type, or if it does not fit exactly.
pub(super) fn unscaled(object: &Bound<'_, PyAny>, precision: u8, scale: i8) -> PyResult<Option<i128>> {
    let is_int = object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>();
    if is_int || object.is_instance(CLASS.import(object.py(), "decimal", "Decimal")?)? {
        return Ok(parsed(&object.str()?.to_string_lossy(), precision, scale));
    }
    Ok(None)
}

fn text(unscaled: i128, scale: i8) -> String {
    let Ok(places) = usize::try_from(scale) else {
        return format!("{unscaled}e{}", -i32::from(scale));
    };
    if places == 0 {
        return unscaled.to_string();
    }
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// Parse digits and an exponent, such as `-12.50` or `1E+3`. `None` for NaN, infinities and numbers that do not fit.
fn parsed(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let exponent = exponent.parse::<i64>().ok()? - i64::try_from(fraction.len()).ok()? + zeros;
    if significant.is_empty() {
        return Some(0);
    }
    let shift = u32::try_from(exponent + i64::from(scale)).ok()?;
    let unscaled = significant.parse::<i128>().ok()?.checked_mul(10i128.checked_pow(shift)?)?;
    let fits = unscaled < 10i128.checked_pow(u32::from(precision))?;
    fits.then_some(sign * unscaled)
}
