//! Readers of text formats, which yield blocks of rows with their rejects.

use std::io::{Cursor, Read};
use std::sync::Mutex;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use arrow_select::concat::concat_batches;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use tidemill_reader::block::Block;
use tidemill_reader::csv::{CsvOptions, CsvReader};
use tidemill_reader::error::{Reject, Result};
use tidemill_reader::json::{JsonOptions, JsonReader, Shape};
use tidemill_reader::text::column::{Column, Texts, internal};

use super::ahead::{self, Begun, PyTextAhead};
use super::input::{Held, open, raised};
use super::options::{CsvFormat, Formats, JsonFormat, TextLimits};
use crate::arrow::{array_out, batch_out, schema_in};
use crate::error::invalid;

/// A file of a text format that is being read.
#[pyclass(name = "TextReader", module = "tidemill._native")]
pub(crate) struct PyTextReader {
    reader: Mutex<Reader>, // only because Python may share the object between threads; it is never locked
}

pub(super) enum Reader {
    Csv(CsvReader),
    Json(JsonReader),
    Begun(Begun),
}

impl Reader {
    pub(super) fn next_block(&mut self) -> Result<Option<Block>> {
        match self {
            Self::Csv(reader) => reader.next_block(),
            Self::Json(reader) => reader.next_block(),
            Self::Begun(begun) => match (begun.blocks.pop_front(), &mut begun.rest) {
                (None, Some(rest)) => rest.next_block(),
                (block, _) => Ok(block),
            },
        }
    }

    pub(super) fn header(&self) -> Option<&str> {
        match self {
            Self::Csv(reader) => reader.header(),
            Self::Json(_) => None,
            Self::Begun(begun) => begun.header.as_deref(),
        }
    }
}

impl PyTextReader {
    pub(super) fn new(reader: Reader) -> Self {
        Self { reader: Mutex::new(reader) }
    }
}

#[pymethods]
impl PyTextReader {
    /// The header of the file, unless it names the columns of the schema in order.
    #[getter]
    fn header(&mut self) -> PyResult<Option<&str>> {
        Ok(exclusive(&mut self.reader)?.header())
    }

    /// Return the next block and its rejects, each as (line, column or None, reason, text); None at the end.
    fn next_block<'py>(&mut self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyList>)>> {
        let reader = exclusive(&mut self.reader)?;
        let block = py.detach(|| reader.next_block()).map_err(|error| raised(py, error))?;
        let Some(block) = block else { return Ok(None) };
        let rejects = block.rejects.into_iter().map(|reject| described(py, reject)).collect::<PyResult<Vec<_>>>()?;
        Ok(Some((batch_out(py, &block.rows)?, PyList::new(py, rejects)?)))
    }
}

/// Return the content of a mutex that no other thread can lock. A panic while it was read makes it unusable.
fn exclusive<T>(held: &mut Mutex<T>) -> PyResult<&mut T> {
    held.get_mut().map_err(|_| PyRuntimeError::new_err("an earlier call failed"))
}

fn described(py: Python<'_>, reject: Reject) -> PyResult<Bound<'_, PyTuple>> {
    (reject.line, reject.column, reject.reason, reject.text).into_pyobject(py)
}

/// Opens files of one format, whose rows have the columns of one schema.
#[pyclass(name = "TextFiles", module = "tidemill._native", frozen)]
pub(crate) struct PyTextFiles {
    schema: Schema,
    format: Mutex<Format>,
}

#[derive(Clone)]
pub(super) enum Format {
    Csv(CsvOptions),
    Json(JsonOptions),
}

#[pymethods]
impl PyTextFiles {
    /// Open a file: a path, bytes, or an object with `read(n)`.
    fn open(&self, file: &Bound<'_, PyAny>) -> PyResult<PyTextReader> {
        let py = file.py();
        let input = open(file)?;
        let format = self.format()?;
        let reader = py.detach(move || format.open(input, &self.schema));
        Ok(PyTextReader::new(reader.map_err(|error| raised(py, error))?))
    }

    /// Begin to read local files in a thread, given as paths and sizes. A compressed file is left out.
    fn read_ahead(&self, files: Vec<(String, u64)>, most_bytes: usize) -> PyResult<Vec<PyTextAhead>> {
        Ok(ahead::begin(self.format()?, self.schema.clone(), files, most_bytes))
    }

    /// Return the rows of the first of some small files, and how many rows each of them has.
    ///
    /// It ends before a file that is not one block of good rows, or when the rows have `most_bytes`.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
    fn read_small<'py>(
        &self,
        py: Python<'py>,
        files: Vec<Bound<'py, PyBytes>>,
        most_bytes: usize,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Vec<usize>)>> {
        let format = self.format()?;
        let inputs: Vec<Held> = files.iter().map(|file| Held(file.clone().unbind())).collect();
        let (blocks, counts) = py.detach(move || small_files(&format, &self.schema, inputs, most_bytes));
        let Some(first) = blocks.first() else { return Ok(None) };
        let schema = first.schema();
        let rows = concat_batches(&schema, &blocks).map_err(|error| raised(py, internal(error)))?;
        Ok(Some((batch_out(py, &rows)?, counts)))
    }
}

impl PyTextFiles {
    fn format(&self) -> PyResult<Format> {
        let format = self.format.lock().map_err(|_| PyRuntimeError::new_err("an earlier call failed"))?;
        Ok(format.clone())
    }
}

impl Format {
    pub(super) fn open(self, input: Box<dyn Read + Send>, schema: &Schema) -> Result<Reader> {
        match self {
            Self::Csv(options) => CsvReader::open(input, schema, options).map(Reader::Csv),
            Self::Json(options) => JsonReader::open(input, schema, options).map(Reader::Json),
        }
    }
}

/// Read files until one is not a block of good rows. Why it is not is found when it is read alone.
fn small_files(
    format: &Format,
    schema: &Schema,
    files: Vec<Held>,
    most_bytes: usize,
) -> (Vec<RecordBatch>, Vec<usize>) {
    let (mut blocks, mut counts, mut bytes) = (Vec::new(), Vec::new(), 0);
    for file in files {
        let Ok(found) = only_block(format, schema, file) else { break };
        let Some(rows) = found else { break };
        bytes += rows.get_array_memory_size();
        counts.push(rows.num_rows());
        blocks.push(rows);
        if bytes >= most_bytes {
            break;
        }
    }
    (blocks, counts)
}

/// Return the rows of a file that has one block, and no reject.
fn only_block(format: &Format, schema: &Schema, file: Held) -> Result<Option<RecordBatch>> {
    let mut reader = format.clone().open(Box::new(Cursor::new(file)), schema)?;
    let Some(block) = reader.next_block()? else { return Ok(None) };
    let is_only = block.rejects.is_empty() && reader.next_block()?.is_none();
    Ok(is_only.then_some(block.rows))
}

/// Return what opens CSV files.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's objects are converted to owned values")]
pub(super) fn csv_files(
    schema: &Bound<'_, PyAny>,
    format: CsvFormat,
    limits: TextLimits,
    time_zone: &str,
) -> PyResult<PyTextFiles> {
    let options = format.options(schema.py(), &limits, time_zone)?;
    Ok(PyTextFiles { schema: schema_in(schema)?, format: Mutex::new(Format::Csv(options)) })
}

/// Return the names of the columns of a CSV file, as Spark makes them.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's objects are converted to owned values")]
pub(super) fn csv_names(file: &Bound<'_, PyAny>, format: CsvFormat, limits: TextLimits) -> PyResult<Vec<String>> {
    let py = file.py();
    let options = format.options(py, &limits, "UTC")?;
    let input = open(file)?;
    py.detach(|| CsvReader::names(input, options)).map_err(|error| raised(py, error))
}

/// Return what opens files of JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's objects are converted to owned values")]
pub(super) fn json_files(
    schema: &Bound<'_, PyAny>,
    format: JsonFormat,
    limits: TextLimits,
    time_zone: &str,
) -> PyResult<PyTextFiles> {
    let options = format.options(schema.py(), &limits, time_zone)?;
    Ok(PyTextFiles { schema: schema_in(schema)?, format: Mutex::new(Format::Json(options)) })
}

/// A file of JSON of which only the shape of its values is asked.
#[pyclass(name = "JsonShapes", module = "tidemill._native")]
pub(crate) struct PyJsonShapes {
    reader: Mutex<JsonReader>,
}

#[pymethods]
impl PyJsonShapes {
    /// Return the shape of the next records, how many they are, and the rejects among them; None at the end.
    fn next_shape<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Shaped<'py>>> {
        let reader = exclusive(&mut self.reader)?;
        let Some((shape, count, rejects)) = py.detach(|| reader.next_shape()).map_err(|error| raised(py, error))?
        else {
            return Ok(None);
        };
        let rejects = rejects.into_iter().map(|reject| described(py, reject)).collect::<PyResult<Vec<_>>>()?;
        Ok(Some((shape_out(py, shape)?, count, PyList::new(py, rejects)?)))
    }
}

type Shaped<'py> = (Bound<'py, PyTuple>, usize, Bound<'py, PyList>);

/// Return a shape as (kinds, numbers, texts, fields as (name, shape), elements or None).
fn shape_out(py: Python<'_>, shape: Shape) -> PyResult<Bound<'_, PyTuple>> {
    let fields = shape.fields.into_iter().map(|(name, field)| Ok((name, shape_out(py, field)?)));
    let fields = fields.collect::<PyResult<Vec<_>>>()?;
    let elements = shape.elements.map(|elements| shape_out(py, *elements)).transpose()?;
    (shape.kinds, shape.numbers, shape.texts, fields, elements).into_pyobject(py)
}

/// Open a file of JSON to learn the shape of its values.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's objects are converted to owned values")]
pub(super) fn json_shapes(file: &Bound<'_, PyAny>, format: JsonFormat, limits: TextLimits) -> PyResult<PyJsonShapes> {
    let py = file.py();
    let options = format.options(py, &limits, "UTC")?;
    let input = open(file)?;
    let reader = py.detach(|| JsonReader::open(input, &Schema::empty(), options));
    Ok(PyJsonShapes { reader: Mutex::new(reader.map_err(|error| raised(py, error))?) })
}

/// Texts of one column, as Python gave them.
struct Given(Vec<Option<String>>);

impl Texts for Given {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn text(&self, row: usize) -> Option<&[u8]> {
        self.0[row].as_deref().map(str::as_bytes)
    }
}

/// Return texts as an array of the only type in `schema`, and the places of those that do not fit, which are null.
///
/// Without `formats` dates and times are in ISO forms.
#[pyfunction]
pub(super) fn values_of_texts<'py>(
    texts: Vec<Option<String>>,
    schema: &Bound<'py, PyAny>,
    formats: Option<Formats>,
    time_zone: &str,
) -> PyResult<(Bound<'py, PyAny>, Vec<usize>)> {
    let py = schema.py();
    let schema = schema_in(schema)?;
    let [field] = schema.fields().iter().collect::<Vec<_>>()[..] else {
        return Err(invalid(py, "expected a schema of one column"));
    };
    let times = formats.unwrap_or_default().times(py, time_zone)?;
    let mut column = Column::new(&field.as_ref().clone().with_nullable(true)).map_err(|error| raised(py, error))?;
    let mut misfits = Vec::new();
    let mut given = Given(texts);
    column.append(&given, &times, |row| misfits.push(row));
    if !misfits.is_empty() {
        for row in &misfits {
            given.0[*row] = None;
        }
        column.truncate(0);
        column.append(&given, &times, |_| {});
    }
    let array = column.finish().map_err(|error| raised(py, error))?;
    Ok((array_out(py, array.as_ref())?, misfits))
}
