//! Files that Parquet is read from: ranges of a local file, of bytes, or of an object that Python reads.
//!
//! INVARIANT: a failure to read is remembered as it was, because the Parquet library passes errors on as text.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tidemill_reader::error::ReadError;

use super::input::Held;

/// Objects are read in blocks of this size, of which some are kept, because columns of a row group are read in turn.
const BLOCK: u64 = 4 * 1024 * 1024;
const KEPT: usize = 16;

/// A file with ranged reads.
#[derive(Clone)]
pub(super) struct Ranges {
    from: Origin,
    length: u64,
    failure: Arc<Mutex<Option<ReadError>>>,
}

#[derive(Clone)]
enum Origin {
    File(Arc<File>),
    Bytes(Bytes),
    Object(Arc<Object>),
}

struct Object {
    object: Py<PyAny>,
    blocks: Mutex<HashMap<u64, Bytes>>,
}

impl Ranges {
    /// Open what Python gave: a path, bytes, or an object with `read_at(start, length)` and `size`.
    pub(super) fn open(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (from, length) = if let Ok(path) = file.cast::<PyString>() {
            let path: String = path.extract()?;
            let opened = File::open(path)?;
            let length = opened.metadata()?.len();
            (Origin::File(Arc::new(opened)), length)
        } else if let Ok(bytes) = file.cast::<PyBytes>() {
            let bytes = Bytes::from_owner(Held(bytes.clone().unbind()));
            let length = bytes.len() as u64;
            (Origin::Bytes(bytes), length)
        } else {
            let object = Object { object: file.clone().unbind(), blocks: Mutex::default() };
            (Origin::Object(Arc::new(object)), file.getattr("size")?.extract()?)
        };
        Ok(Self { from, length, failure: Arc::default() })
    }

    /// Return the failure that was remembered, else `error`.
    pub(super) fn cause(&self, error: ReadError) -> ReadError {
        self.failure.lock().ok().and_then(|mut failure| failure.take()).unwrap_or(error)
    }

    fn failed(&self, error: io::Error) -> ParquetError {
        let text = error.to_string();
        if let Ok(mut failure) = self.failure.lock() {
            *failure = Some(error.into());
        }
        ParquetError::General(text)
    }

    fn bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.length);
        let Some(end) = end else {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end of the file")));
        };
        match &self.from {
            Origin::Bytes(bytes) => bytes.get_bytes(start, length),
            Origin::File(file) => {
                let mut data = vec![0; length];
                file.read_exact_at(&mut data, start).map_err(|error| self.failed(error))?;
                Ok(data.into())
            }
            Origin::Object(object) => object.bytes(start, end, self.length).map_err(|error| self.failed(error)),
        }
    }
}

impl Object {
    fn bytes(&self, start: u64, end: u64, length: u64) -> io::Result<Bytes> {
        if end - start >= BLOCK {
            return self.read(start, end);
        }
        let mut data = Vec::new();
        let mut at = start;
        while at < end {
            let block = at / BLOCK;
            let (first, last) = (block * BLOCK, ((block + 1) * BLOCK).min(length));
            let bytes = self.block(block, first, last)?;
            let (from, to) = (at - first, end.min(last) - first);
            #[expect(clippy::cast_possible_truncation, reason = "within a block of 4 MiB")]
            data.extend_from_slice(&bytes[from as usize..to as usize]);
            at = first + to;
        }
        Ok(data.into())
    }

    fn block(&self, block: u64, first: u64, last: u64) -> io::Result<Bytes> {
        let known = self.blocks.lock().map_err(|_| io::Error::other("an earlier read failed"))?.get(&block).cloned();
        if let Some(bytes) = known {
            return Ok(bytes);
        }
        let bytes = self.read(first, last)?;
        let mut blocks = self.blocks.lock().map_err(|_| io::Error::other("an earlier read failed"))?;
        if blocks.len() >= KEPT
            && let Some(oldest) = blocks.keys().min().copied()
        {
            blocks.remove(&oldest);
        }
        blocks.insert(block, bytes.clone());
        Ok(bytes)
    }

    fn read(&self, start: u64, end: u64) -> io::Result<Bytes> {
        let read = Python::attach(|py| -> PyResult<Bytes> {
            let read = self.object.bind(py).call_method1("read_at", (start, end - start))?;
            Ok(Bytes::from_owner(Held(read.cast_into::<PyBytes>()?.unbind())))
        });
        let bytes = read.map_err(|error| io::Error::other(tidemill_reader::error::External(Box::new(error))))?;
        if bytes.len() as u64 == end - start {
            Ok(bytes)
        } else {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than it was"))
        }
    }
}

impl Length for Ranges {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Ranges {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        match &self.from {
            Origin::Bytes(bytes) => {
                let length = bytes.len() - usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
                Ok(Box::new(bytes.slice(bytes.len() - length..).reader()))
            }
            _ => Ok(Box::new(BufReader::new(Sequential { ranges: self.clone(), at: start }))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.bytes(start, length)
    }
}

/// Reads on from a place of a file.
struct Sequential {
    ranges: Ranges,
    at: u64,
}

impl Read for Sequential {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.ranges.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let bytes = self.ranges.bytes(self.at, count).map_err(io::Error::other)?;
        buffer[..count].copy_from_slice(&bytes);
        self.at += count as u64;
        Ok(count)
    }
}
