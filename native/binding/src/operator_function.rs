//! A Python function as the engine's `KeyedFunction`: makes what it is given, checks what it gives back.
//!
//! Which keys, which rows, in which order, and what becomes of states is decided in the engine. INVARIANT: what the
//! user's code raises reaches the caller as `InvalidInput` with its traceback; interrupts pass untouched.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;
use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};
use tidemill_core::operator::{Fate, KeyedFunction, Returned, RowAt, Visit};
use tidemill_core::{Error, Result};

use crate::error::{external, invalid};
use crate::state::{Current, Lent, PyState, StateKind, repr};
use crate::value::{Builder, Decoder, Field, Refused, Shape, Zone};

/// How the function is called.
#[derive(Clone, Copy)]
pub(crate) enum Arguments {
    /// `f(batchTime, key, value, state)`.
    Four,
    /// `f(value, state)`.
    Two,
}

/// A user's function, and the shapes of what it sees.
pub(crate) struct PythonFunction {
    pub(crate) operator: String,
    pub(crate) function: Py<PyAny>,
    pub(crate) arguments: Arguments,
    pub(crate) key: Vec<Field>,
    pub(crate) value: Shape,
    /// The columns that `value` is made of.
    pub(crate) value_columns: Vec<String>,
    pub(crate) state: Arc<StateKind>,
    pub(crate) output: Shape,
    pub(crate) output_schema: SchemaRef,
    pub(crate) zone: Arc<Zone>,
}

impl KeyedFunction for PythonFunction {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        Python::attach(|py| Calls::new(py, self, visit)?.run())
    }
}

/// The calls of one visit.
struct Calls<'a, 'py> {
    py: Python<'py>,
    of: &'a PythonFunction,
    visit: &'a Visit<'a>,
    function: &'a Bound<'py, PyAny>,
    batch_time: Bound<'py, PyInt>,
    keys: Vec<Decoder>,
    values: Values,
    state: Bound<'py, PyState>,
    returned: Growing,
}

/// Value columns in the order in which rows are visited, brought there a window at a time: to jump about in them for
/// each call would miss the processor's cache each time.
struct Values {
    /// By column, then chunk.
    chunks: Vec<Vec<ArrayRef>>,
    window: Range<usize>,
    columns: Vec<Decoder>,
}

/// `Returned` while it grows.
struct Growing {
    fates: Vec<Fate>,
    states: Vec<Builder>,
    outputs: Vec<Builder>,
    emitted_by: Vec<u32>,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a PythonFunction, visit: &'a Visit<'a>) -> Result<Self> {
        let stored = Arc::new(of.state.shape.decoders(visit.states));
        let state = Bound::new(py, PyState::new(Arc::clone(&of.state), stored)).map_err(external)?;
        Ok(Self {
            py,
            of,
            visit,
            function: of.function.bind(py),
            batch_time: PyInt::new(py, visit.pass.batch_time_ms),
            keys: visit.keys.columns().iter().zip(&of.key).map(|(c, f)| Decoder::new(c, f)).collect(),
            values: Values::new(of, visit)?,
            state,
            returned: Growing {
                fates: Vec::with_capacity(visit.keys.len()),
                states: of.state.shape.builders(),
                outputs: of.output.builders(),
                emitted_by: Vec::new(),
            },
        })
    }

    fn run(mut self) -> Result<Returned> {
        let mut start = 0;
        for (key, &end) in (0u32..).zip(self.visit.ends) {
            self.visit_key(key, start..end)?;
            start = end;
        }
        self.returned.finish(&self.of.output_schema)
    }

    fn visit_key(&mut self, number: u32, rows: Range<usize>) -> Result<()> {
        let place = number as usize;
        let key = self.key(place).map_err(|error| self.unreadable(error, None))?;
        let exists = self.visit.exists[place];
        let current = if exists { Current::Stored(place) } else { Current::Absent };
        let is_timing_out = self.visit.timing_out;
        self.state.borrow_mut().lend(Lent { key: key.clone().unbind(), current, is_timing_out });
        if is_timing_out {
            let none = self.py.None().into_bound(self.py);
            self.call(number, &key, none, None)?;
        }
        for row in rows {
            let chunk = self.visit.rows[row].chunk;
            let (columns, place) = self.values.at(row, self.visit.rows, &self.of.value)?;
            let value = self.of.value.decode(columns, self.py, place, &self.of.zone);
            let value = value.map_err(|error| self.unreadable(error, Some(chunk)))?;
            self.state.borrow_mut().next_call();
            self.call(number, &key, value, Some(chunk))?;
        }
        let lent = self.state.borrow_mut().take_back();
        let current = lent.map_or(Current::Absent, |lent| lent.current);
        self.returned.settle(self.py, &self.of.state.shape, exists, &current).map_err(external)
    }

    /// One column: the scalar; several: a tuple.
    fn key(&self, place: usize) -> PyResult<Bound<'py, PyAny>> {
        match self.keys.as_slice() {
            [only] => only.get(self.py, place, &self.of.zone),
            columns => Ok(Decoder::tuple(columns, self.py, place, &self.of.zone)?.into_any()),
        }
    }

    fn call(
        &mut self,
        number: u32,
        key: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        chunk: Option<u32>,
    ) -> Result<()> {
        let answer = self.arguments(key, value).and_then(|arguments| self.function.call1(arguments));
        let answer = answer.map_err(|error| self.raised(error, key, chunk))?;
        self.retire_if_kept().map_err(external)?;
        if answer.is_none() {
            return Ok(());
        }
        let taken = self.of.output.parse_into(&answer, &self.of.zone, &mut self.returned.outputs);
        taken.map_err(|refused| self.misfit(refused, key, chunk))?;
        self.returned.emitted_by.push(number);
        Ok(())
    }

    fn arguments(&self, key: &Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let state = self.state.clone().into_any();
        match self.of.arguments {
            Arguments::Four => PyTuple::new(self.py, [self.batch_time.clone().into_any(), key.clone(), value, state]),
            Arguments::Two => PyTuple::new(self.py, [value, state]),
        }
    }

    /// Puts another object in the place of a `State` that user code still holds.
    #[expect(unsafe_code, reason = "a reference count is read while the interpreter is held")]
    fn retire_if_kept(&mut self) -> PyResult<()> {
        // SAFETY: the pointer is that of a live object.
        let holders = unsafe { ffi::Py_REFCNT(self.state.as_ptr()) };
        if holders == 1 {
            return Ok(());
        }
        let (lent, mut successor) = {
            let mut state = self.state.try_borrow_mut()?;
            (state.take_back(), state.successor())
        };
        if let Some(lent) = lent {
            successor.lend(lent);
        }
        self.state = Bound::new(self.py, successor)?;
        Ok(())
    }

    /// The error for what the function raised.
    fn raised(&self, error: PyErr, key: &Bound<'py, PyAny>, chunk: Option<u32>) -> Error {
        let py = self.py;
        if !error.is_instance_of::<PyException>(py) {
            return external(error);
        }
        if self.state.try_borrow().is_ok_and(|state| state.is_own_complaint(py, &error)) {
            return self.located(error, key, chunk);
        }
        let text = format!(
            "function `{}` of operator `{}` raised `{}` for key `{}`\n{}",
            self.of.function_name(py),
            self.of.operator,
            summary(py, &error),
            repr(key),
            traceback(py, &error),
        );
        let raised = invalid(py, &text);
        raised.set_cause(py, Some(error));
        self.located(raised, key, chunk)
    }

    /// The error for what the function returned.
    fn misfit(&self, refused: Refused, key: &Bound<'py, PyAny>, chunk: Option<u32>) -> Error {
        let misfit = match refused {
            Refused::Misfit(misfit) => misfit,
            Refused::Raised(error) => return self.raised(error, key, chunk),
        };
        let text = format!(
            "cannot emit what function `{}` of operator `{}` returned for key `{}`: {misfit}",
            self.of.function_name(self.py),
            self.of.operator,
            repr(key),
        );
        self.located(invalid(self.py, &text), key, chunk)
    }

    /// The error for a cell that Python has no object for.
    fn unreadable(&self, error: PyErr, chunk: Option<u32>) -> Error {
        let py = self.py;
        if !error.is_instance_of::<PyException>(py) {
            return external(error);
        }
        let text = format!("operator `{}` cannot show a row to Python: {}", self.of.operator, error.value(py));
        self.located(invalid(py, &text), py.None().bind(py), chunk)
    }

    /// `error` with the attributes that say where it arose.
    fn located(&self, error: PyErr, key: &Bound<'py, PyAny>, chunk: Option<u32>) -> Error {
        let value = error.value(self.py);
        let located = value
            .setattr("operator", &self.of.operator)
            .and_then(|()| value.setattr("key", repr(key)))
            .and_then(|()| value.setattr("chunk", chunk));
        external(located.err().unwrap_or(error))
    }
}

impl Values {
    const WINDOW: usize = 8192;

    fn new(of: &PythonFunction, visit: &Visit<'_>) -> Result<Self> {
        let column = |name: &String, chunk: &RecordBatch| {
            let missing = || Error::InternalError(format!("operator `{}` did not send `{name}`", of.operator));
            chunk.column_by_name(name).cloned().ok_or_else(missing)
        };
        let of_chunks = |name| visit.chunks.iter().map(|chunk| column(name, chunk)).collect::<Result<_>>();
        let chunks = of.value_columns.iter().map(of_chunks).collect::<Result<_>>()?;
        Ok(Self { chunks, window: 0..0, columns: Vec::new() })
    }

    /// The columns that hold the row visited as number `row`, and its place there.
    #[inline]
    fn at(&mut self, row: usize, rows: &[RowAt], shape: &Shape) -> Result<(&[Decoder], usize)> {
        if row >= self.window.end {
            self.window = row..rows.len().min(row + Self::WINDOW);
            let picks: Vec<(usize, usize)> =
                rows[self.window.clone()].iter().map(|at| (at.chunk as usize, at.row as usize)).collect();
            let column = |chunks: &Vec<ArrayRef>| {
                let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
                interleave(&chunks, &picks)
            };
            let columns = self.chunks.iter().map(column).collect::<std::result::Result<Vec<_>, _>>()?;
            self.columns = shape.decoders(&columns);
        }
        Ok((&self.columns, row - self.window.start))
    }
}

impl PythonFunction {
    fn function_name(&self, py: Python<'_>) -> String {
        let function = self.function.bind(py);
        let name = function.getattr("__name__").and_then(|name| name.extract::<String>());
        name.unwrap_or_else(|_| repr(function))
    }
}

impl Growing {
    fn settle(&mut self, py: Python<'_>, shape: &Shape, existed: bool, current: &Current) -> PyResult<()> {
        self.fates.push(match current {
            Current::Absent if existed => Fate::Removed,
            Current::Absent | Current::Stored(_) => Fate::Kept,
            Current::Updated(value) => {
                shape.append(py, value, &mut self.states)?;
                Fate::Updated
            }
        });
        Ok(())
    }

    fn finish(self, output_schema: &SchemaRef) -> Result<Returned> {
        let columns = |builders: Vec<Builder>| -> Result<Vec<ArrayRef>> {
            builders.into_iter().map(|builder| Ok(builder.finish()?)).collect()
        };
        let (states, outputs) = (columns(self.states)?, columns(self.outputs)?);
        let outputs = crate::arrow::batch(output_schema.clone(), outputs, self.emitted_by.len())?;
        Ok(Returned { fates: self.fates, states, outputs, emitted_by: self.emitted_by })
    }
}

/// `ZeroDivisionError: division by zero`: one line.
pub(crate) fn summary(py: Python<'_>, error: &PyErr) -> String {
    let name = error.get_type(py).name().map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned());
    let text = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    match text.lines().next() {
        Some(line) if !line.is_empty() => format!("{name}: {line}"),
        _ => name,
    }
}

/// The traceback as Python prints it.
pub(crate) fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let lines = || -> PyResult<String> {
        let error = error.clone_ref(py).into_value(py); // takes its traceback along
        let lines = py.import("traceback")?.getattr("format_exception")?.call1((error,))?;
        Ok(lines.extract::<Vec<String>>()?.concat())
    };
    lines().unwrap_or_default().trim_end().to_owned()
}
