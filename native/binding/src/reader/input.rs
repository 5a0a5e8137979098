//! Files that Rust reads: by path, from bytes, or by calling `read` of a Python file.
//!
//! INVARIANT: an exception that a Python file raises reaches the caller as the same object.

use std::fs::File;
use std::io::{self, Cursor, Read};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tidemill_core::Error;
use tidemill_reader::error::{External, ReadError};

use super::Unreadable;
use crate::error::to_python;

/// How much is asked of a Python file at once.
const CHUNK: usize = 8 * 1024 * 1024;

/// Open what Python gave: a path, bytes, or an object with `read(n)`.
pub(super) fn open(file: &Bound<'_, PyAny>) -> PyResult<Box<dyn Read + Send>> {
    if let Ok(path) = file.cast::<PyString>() {
        let path: String = path.extract()?;
        return Ok(Box::new(File::open(path)?));
    }
    if let Ok(bytes) = file.cast::<PyBytes>() {
        return Ok(Box::new(Cursor::new(Held(bytes.clone().unbind()))));
    }
    Ok(Box::new(PythonFile { file: file.clone().unbind(), chunk: None, at: 0 }))
}

/// Bytes of Python, which never move.
pub(super) struct Held(pub(super) Py<PyBytes>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        Python::attach(|py| {
            let bytes = self.0.bind(py).as_bytes();
            #[expect(unsafe_code, reason = "the bytes are immutable, and live as long as the reference held by `self`")]
            unsafe {
                std::slice::from_raw_parts(bytes.as_ptr(), bytes.len())
            }
        })
    }
}

/// The exception for an error of the reader.
pub(super) fn raised(py: Python<'_>, error: ReadError) -> PyErr {
    match error {
        ReadError::Content(found) => Unreadable::new_err((found.reason, found.line, found.hint)),
        ReadError::Input(error) => error.into(),
        ReadError::External(error) => to_python(py, Error::External(error)),
        ReadError::Internal(text) => to_python(py, Error::InternalError(text)),
    }
}

/// A Python file. It is read in large chunks.
struct PythonFile {
    file: Py<PyAny>,
    chunk: Option<Py<PyBytes>>,
    at: usize,
}

impl Read for PythonFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| self.read_attached(py, buffer)).map_err(|error| io::Error::other(External(Box::new(error))))
    }
}

impl PythonFile {
    fn read_attached(&mut self, py: Python<'_>, buffer: &mut [u8]) -> PyResult<usize> {
        let rest = self.chunk.as_ref().map_or(0, |chunk| chunk.bind(py).as_bytes().len() - self.at);
        if rest == 0 {
            let read = self.file.bind(py).call_method1("read", (CHUNK.max(buffer.len()),))?;
            self.chunk = Some(read.cast_into::<PyBytes>()?.unbind());
            self.at = 0;
        }
        let Some(chunk) = &self.chunk else { return Ok(0) };
        let left = &chunk.bind(py).as_bytes()[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}
