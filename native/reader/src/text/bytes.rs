//! A buffer over the text of a file: the bytes that are not consumed yet, at least one record if there is one.
//!
//! INVARIANT: how much is read at once changes no result; it only decides when `more` is called.

use std::io::{ErrorKind, Read};

use super::compressed;
use super::encoding::{Charset, decoded};
use super::magic::{LOOKED_AT, not_text};
use crate::error::Result;

/// How much of a file is read first: many files are no larger, and memory that is not needed costs time, too.
const FIRST_BYTES: usize = 16 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// How the bytes of a file become text.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The encoding of the text.
    pub charset: Charset,
    /// What messages call the format: `CSV`.
    pub format: &'static str,
    /// Whether the input is known to be text in UTF-8, so that its first bytes say nothing about it.
    pub is_text: bool,
    /// How many bytes are read at once.
    pub buffer_bytes: usize,
}

/// Text that is read piece by piece.
pub struct Buffer {
    input: Box<dyn Read + Send>,
    data: Vec<u8>,
    start: usize,
    end: usize,
    is_last: bool,
    /// How long `data` is after the first read.
    full: usize,
}

impl Buffer {
    /// Open a file: decompress it, check that it is text, decode it, and drop its byte order mark.
    pub fn open(file: Box<dyn Read + Send>, form: Form) -> Result<Self> {
        if form.is_text {
            return Ok(Self::new(file, form));
        }
        let mut file = compressed::open(file)?;
        let start = compressed::first(&mut file, LOOKED_AT)?;
        if let Some(other) = not_text(&start, form.format, form.charset) {
            return Err(other.into());
        }
        let whole = Box::new(std::io::Cursor::new(start.clone()).chain(file));
        let input = decoded(whole, form.charset, &start);
        let mut buffer = Self::new(input, form);
        while buffer.bytes().len() < BOM.len() && !buffer.is_last {
            buffer.more()?;
        }
        if buffer.bytes().starts_with(BOM) {
            buffer.consume(BOM.len());
        }
        Ok(buffer)
    }

    fn new(input: Box<dyn Read + Send>, form: Form) -> Self {
        let full = form.buffer_bytes.max(4);
        Self { input, data: vec![0; full.min(FIRST_BYTES)], start: 0, end: 0, is_last: false, full }
    }

    /// The bytes that are not consumed yet, as far as they are read.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// Whether nothing follows `bytes`.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Forget the first `count` bytes.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Read more bytes behind those that are not consumed yet. The buffer grows if it is more than half full.
    pub fn more(&mut self) -> Result<()> {
        if self.end == self.data.len() && self.end < self.full {
            self.data.resize(self.full, 0);
        }
        self.data.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end > self.data.len() / 2 {
            self.data.resize(self.data.len() * 2, 0);
        }
        while self.end < self.data.len() && !self.is_last {
            match self.input.read(&mut self.data[self.end..]) {
                Ok(0) => self.is_last = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
