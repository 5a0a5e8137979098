//! Options of the readers, as attributes of Python objects.

use pyo3::prelude::*;
use tidemill_reader::block::Limits;
use tidemill_reader::columns::{ByName, Extra, Missing};
use tidemill_reader::csv::{CsvOptions, Dialect, Matching};
use tidemill_reader::json::{Allow, JsonOptions, MAX_DEPTH};
use tidemill_reader::text::bytes::Form;
use tidemill_reader::text::encoding::Charset;
use tidemill_reader::time::{Pattern, Times, Zone};

use crate::error::invalid;

/// How dates and times are written: `sources.text_format.Formats`.
#[derive(FromPyObject, Default)]
pub(super) struct Formats {
    date: Option<String>,
    timestamp: Option<String>,
    timestamp_ntz: Option<String>,
}

impl Formats {
    pub(super) fn times(&self, py: Python<'_>, time_zone: &str) -> PyResult<Times> {
        let zone = Zone::new(time_zone).ok_or_else(|| invalid(py, &format!("unknown time zone `{time_zone}`")))?;
        let mut times = Times::iso(zone);
        if let Some(pattern) = &self.date {
            times = times.with_date_format(pattern).map_err(|why| invalid(py, &why))?;
        }
        if let Some(pattern) = &self.timestamp {
            times = times.with_timestamp_format(pattern).map_err(|why| invalid(py, &why))?;
        }
        if let Some(pattern) = &self.timestamp_ntz {
            times = times.with_timestamp_ntz_format(pattern).map_err(|why| invalid(py, &why))?;
        }
        Ok(times)
    }
}

/// How columns are matched by name: `sources.columns_by_name.ColumnsByName`.
#[derive(FromPyObject)]
pub(super) struct Columns {
    extra: String,
    missing: String,
    elsewhere: Vec<String>,
}

impl Columns {
    pub(super) fn by_name(&self) -> ByName {
        ByName {
            extra: if self.extra == "fail" { Extra::Fail } else { Extra::Ignore },
            missing: if self.missing == "null" { Missing::Null } else { Missing::Fail },
            elsewhere: self.elsewhere.clone(),
        }
    }
}

/// How much is read at once: `sources.text_format.TextLimits`.
#[derive(FromPyObject)]
pub(super) struct TextLimits {
    block_rows: usize,
    block_bytes: usize,
    record_bytes: usize,
    buffer_bytes: usize,
}

impl TextLimits {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            block_rows: self.block_rows.max(1),
            block_bytes: self.block_bytes.max(1),
            record_bytes: self.record_bytes,
        }
    }

    pub(super) fn form(&self, py: Python<'_>, encoding: &str, is_text: bool, format: &'static str) -> PyResult<Form> {
        let charset = Charset::named(encoding).ok_or_else(|| invalid(py, &format!("unknown encoding `{encoding}`")))?;
        Ok(Form { charset, format, is_text, buffer_bytes: self.buffer_bytes })
    }
}

/// The format of CSV: `sources.text_format.CsvFormat`.
#[derive(FromPyObject)]
pub(super) struct CsvFormat {
    separator: String,
    quote: String,
    escape: String,
    escape_escape: String,
    comment: String,
    null_value: String,
    empty_value: String,
    trim_leading: bool,
    trim_trailing: bool,
    line_end: Option<String>,
    encoding: String,
    is_text: bool,
    matching: String,
    columns: Columns,
    formats: Formats,
}

impl CsvFormat {
    pub(super) fn options(&self, py: Python<'_>, limits: &TextLimits, time_zone: &str) -> PyResult<CsvOptions> {
        Ok(CsvOptions {
            dialect: self.dialect(),
            matching: self.matching(),
            form: limits.form(py, &self.encoding, self.is_text, "CSV")?,
            limits: limits.limits(),
            times: self.formats.times(py, time_zone)?,
        })
    }

    fn dialect(&self) -> Dialect {
        let first = |text: &str| text.bytes().next();
        Dialect {
            separator: self.separator.clone().into_bytes(),
            quote: first(&self.quote),
            escape: first(&self.escape),
            escape_escape: first(&self.escape_escape),
            comment: first(&self.comment),
            null_value: self.null_value.clone().into_bytes(),
            empty_value: self.empty_value.clone().into_bytes(),
            trim_leading: self.trim_leading,
            trim_trailing: self.trim_trailing,
            line_end: self.line_end.clone().map(String::into_bytes),
        }
    }

    fn matching(&self) -> Matching {
        match self.matching.as_str() {
            "name" => Matching::Name(self.columns.by_name()),
            "position" => Matching::Position,
            _ => Matching::NoHeader,
        }
    }
}

/// The format of JSON: `sources.text_format.JsonFormat`.
#[derive(FromPyObject)]
pub(super) struct JsonFormat {
    multi_line: bool,
    comments: bool,
    unquoted_names: bool,
    single_quotes: bool,
    leading_zeros: bool,
    any_backslash: bool,
    unquoted_control: bool,
    non_numeric: bool,
    line_end: Option<String>,
    encoding: String,
    is_text: bool,
    formats: Formats,
}

impl JsonFormat {
    pub(super) fn options(&self, py: Python<'_>, limits: &TextLimits, time_zone: &str) -> PyResult<JsonOptions> {
        Ok(JsonOptions {
            multi_line: self.multi_line,
            allow: Allow {
                comments: self.comments,
                unquoted_names: self.unquoted_names,
                single_quotes: self.single_quotes,
                leading_zeros: self.leading_zeros,
                any_backslash: self.any_backslash,
                unquoted_control: self.unquoted_control,
                non_numeric: self.non_numeric,
            },
            max_depth: MAX_DEPTH,
            line_end: self.line_end.clone().map(String::into_bytes),
            form: limits.form(py, &self.encoding, self.is_text, "JSON")?,
            limits: limits.limits(),
            times: self.formats.times(py, time_zone)?,
        })
    }
}

/// Raise `InvalidInput` if a pattern of dates and times is not supported.
#[pyfunction]
pub(super) fn check_time_pattern(py: Python<'_>, pattern: &str) -> PyResult<()> {
    Pattern::new(pattern).map(|_| ()).map_err(|why| invalid(py, &why))
}

/// Return the name of an encoding, or None if it is unknown.
#[pyfunction]
pub(super) fn charset(name: &str) -> Option<&'static str> {
    Charset::named(name).map(Charset::name)
}
