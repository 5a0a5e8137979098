//! Text files that a thread reads, one after the other, before Python asks for them.
//!
//! INVARIANT: the thread touches no Python object, keeps bounded memory, and does not delay the end of the process. What
//! it cannot read well, it leaves to the reader that comes later.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// The first blocks of a file, and the reader of what follows, or `None` if that is all. The header is that of the file.
pub(super) struct Begun {
    pub(super) blocks: VecDeque<Block>,
    pub(super) header: Option<String>,
    pub(super) rest: Option<Box<Reader>>,
}

/// A file that a thread reads.
#[pyclass(name = "TextAhead", module = "tidemill._native", frozen)]
pub(crate) struct PyTextAhead {
    process: u32,
    found: Mutex<Option<Receiver<Begun>>>,
}

#[pymethods]
impl PyTextAhead {
    /// Wait for the file, and return its reader, once. None if it must be read now.
    fn take(&self, py: Python<'_>) -> PyResult<Option<PyTextReader>> {
        let Some(mut receiver) = self.receiver() else { return Ok(None) };
        loop {
            let (waited, result) = py.detach(move || {
                let result = receiver.recv_timeout(LOOK);
                (receiver, result)
            });
            match result {
                Ok(begun) => return Ok(Some(PyTextReader::new(Reader::Begun(begun)))),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => receiver = waited,
            }
            py.check_signals()?;
        }
    }
}

impl PyTextAhead {
    /// Take the receiver. A forked process has none, because it has no thread; that of its parent is left as it is.
    fn receiver(&self) -> Option<Receiver<Begun>> {
        let receiver = self.found.lock().ok().and_then(|mut found| found.take())?;
        if self.process == std::process::id() {
            return Some(receiver);
        }
        mem::forget(receiver);
        None
    }
}

impl Drop for PyTextAhead {
    fn drop(&mut self) {
        drop(self.receiver());
    }
}

/// Begin to read files, given as paths and sizes. About `most_bytes` of rows are kept of all of them together.
pub(super) fn begin(format: Format, schema: Schema, files: Vec<(String, u64)>, most_bytes: usize) -> Vec<PyTextAhead> {
    let (senders, receivers): (Vec<_>, Vec<_>) = files.iter().map(|_| channel()).unzip();
    let started = thread::Builder::new().name("tidemill-ahead".to_owned()).spawn(move || {
        let mut left = most_bytes;
        for ((path, size), sender) in files.into_iter().zip(senders) {
            let read = catch_unwind(AssertUnwindSafe(|| read(&format, &schema, &path, size, &mut left)));
            if let Ok(Some(begun)) = read {
                let _ = sender.send(begun); // fails if the caller has gone
            }
            if left == 0 {
                break;
            }
        }
    });
    let process = std::process::id();
    let found = |receiver| Mutex::new(started.as_ref().ok().map(|_| receiver));
    receivers.into_iter().map(|receiver| PyTextAhead { process, found: found(receiver) }).collect()
}

fn read(format: &Format, schema: &Schema, path: &str, size: u64, left: &mut usize) -> Option<Begun> {
    let data = plain_file(path, size).ok().flatten()?;
    let mut reader = format.clone().open(Box::new(Cursor::new(data)), schema).ok()?;
    let mut blocks = VecDeque::new();
    let mut is_whole = false;
    while *left > 0 && !is_whole {
        match reader.next_block().ok()? {
            Some(block) => {
                *left = left.saturating_sub(bytes_of(&block));
                blocks.push_back(block);
            }
            None => is_whole = true,
        }
    }
    Some(Begun { header: reader.header().map(str::to_owned), blocks, rest: (!is_whole).then(|| Box::new(reader)) })
}

fn bytes_of(block: &Block) -> usize {
    let rejects: usize = block.rejects.iter().map(|reject| reject.text.len() + reject.reason.len()).sum();
    block.rows.get_array_memory_size() + rejects
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
