//! A text file that a thread reads before Python asks for it.
//!
//! INVARIANT: the thread touches no Python object, keeps bounded memory, and needs not be waited for at the end of the
//! process. Whatever it cannot read well, it leaves to the reader that comes later.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use arrow_schema::Schema;
use pyo3::prelude::*;
use tidemill_reader::block::Block;

use super::texts::{Format, PyTextReader, Reader};

/// How often a caller that waits looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// All blocks of a file, and its header.
pub(super) struct Whole {
    pub(super) blocks: VecDeque<Block>,
    pub(super) header: Option<String>,
}

/// A file that is being read in a thread.
#[pyclass(name = "TextAhead", module = "tidemill._native", frozen)]
pub(crate) struct PyTextAhead {
    process: u32,
    found: Mutex<Option<Receiver<Whole>>>,
}

#[pymethods]
impl PyTextAhead {
    /// Wait for the file, and return its reader, once. None if it must be read now.
    fn take(&self, py: Python<'_>) -> PyResult<Option<PyTextReader>> {
        let taken = self.found.lock().ok().and_then(|mut found| found.take());
        let Some(found) = taken.filter(|_| self.process == std::process::id()) else { return Ok(None) };
        let mut found = Some(found);
        while let Some(receiver) = found.take() {
            let (receiver, result) = py.detach(move || {
                let result = receiver.recv_timeout(LOOK);
                (receiver, result)
            });
            match result {
                Ok(whole) => return Ok(Some(PyTextReader::new(Reader::Whole(whole)))),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => found = Some(receiver),
            }
            py.check_signals()?;
        }
        Ok(None)
    }
}

/// Begin to read the file at `path` if it has `size` bytes. No more than about `most_bytes` of rows are kept.
pub(super) fn begin(format: Format, schema: Schema, path: String, size: u64, most_bytes: usize) -> PyTextAhead {
    let (sender, receiver) = channel();
    let started = thread::Builder::new().name("tidemill-ahead".to_owned()).spawn(move || {
        if let Some(whole) = read(format, &schema, &path, size, most_bytes) {
            let _ = sender.send(whole); // unless no caller waits any more
        }
    });
    PyTextAhead { process: std::process::id(), found: Mutex::new(started.ok().map(|_| receiver)) }
}

fn read(format: Format, schema: &Schema, path: &str, size: u64, most_bytes: usize) -> Option<Whole> {
    let data = plain_file(path, size).ok().flatten()?;
    let mut reader = format.open(Box::new(Cursor::new(data)), schema).ok()?;
    let (mut blocks, mut bytes) = (VecDeque::new(), 0);
    while let Some(block) = reader.next_block().ok()? {
        let rejects: usize = block.rejects.iter().map(|reject| reject.text.len() + reject.reason.len()).sum();
        bytes += block.rows.get_array_memory_size() + rejects;
        if bytes > most_bytes {
            return None;
        }
        blocks.push_back(block);
    }
    Some(Whole { header: reader.header().map(str::to_owned), blocks })
}

/// Return the bytes of a regular file that is not compressed and has `size` bytes.
fn plain_file(path: &str, size: u64) -> io::Result<Option<Vec<u8>>> {
    let is_as_listed = |found: fs::Metadata| found.is_file() && found.len() == size;
    if !is_as_listed(fs::metadata(path)?) {
        return Ok(None);
    }
    let file = File::open(path)?;
    if !is_as_listed(file.metadata()?) {
        return Ok(None);
    }
    let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(size + 1).read_to_end(&mut data)?;
    let is_whole = u64::try_from(data.len()).is_ok_and(|length| length == size);
    Ok((is_whole && !is_compressed(&data)).then_some(data))
}

/// Whether a file begins as gzip, zstd (a frame or one to skip) or bzip2 does, and may become much longer.
fn is_compressed(data: &[u8]) -> bool {
    match data {
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [b'B', b'Z', b'h', ..] => true,
        [first, 0x2a, 0x4d, 0x18, ..] => first & 0xf0 == 0x50,
        _ => false,
    }
}
