//! Text of a file in UTF-8, from the encoding that the source declares.
//!
//! INVARIANT: bytes that are no character of the encoding come out as a byte that is no UTF-8 (`BROKEN`), so that their
//! record is rejected and nothing is replaced silently.

use std::io::{self, Read};

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Stands for bytes that are no character. No valid UTF-8 has it.
pub const BROKEN: u8 = 0xff;
const BUFFER: usize = 64 * 1024;

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// UTF-8: bytes pass as they are.
    Utf8,
    /// ISO-8859-1: a byte is the code of its character.
    Latin1,
    /// ASCII: bytes from 128 on are no characters.
    Ascii,
    /// UTF-16 in the order that the byte order mark says; without one big-endian, as in Java.
    Utf16,
    /// Another encoding.
    Other(&'static Encoding),
}

impl Charset {
    /// Return the encoding with a name or label such as `UTF-8`, `latin1`, `windows-1252`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = name.trim().to_ascii_lowercase().replace('_', "-");
        match found.as_str() {
            "utf-8" | "utf8" => return Some(Self::Utf8),
            "iso-8859-1" | "iso8859-1" | "latin1" | "latin-1" => return Some(Self::Latin1),
            "us-ascii" | "ascii" => return Some(Self::Ascii),
            "utf-16" | "utf16" => return Some(Self::Utf16),
            _ => {}
        }
        let encoding = Encoding::for_label_no_replacement(found.as_bytes())?;
        Some(if encoding == UTF_8 { Self::Utf8 } else { Self::Other(encoding) })
    }

    /// Whether bytes of the file pass as they are.
    #[must_use]
    pub fn is_utf8(self) -> bool {
        self == Self::Utf8
    }

    /// Whether two bytes are one unit of text.
    #[must_use]
    pub fn is_utf16(self) -> bool {
        self == Self::Utf16 || self == Self::Other(UTF_16BE) || self == Self::Other(UTF_16LE)
    }

    /// What messages call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Latin1 => "ISO-8859-1",
            Self::Ascii => "US-ASCII",
            Self::Utf16 => "UTF-16",
            Self::Other(encoding) => encoding.name(),
        }
    }

    /// Return how bytes become text; `None` for UTF-8. `start` are the first bytes of the file.
    fn decoder(self, start: &[u8]) -> Option<Decoder> {
        Some(match self {
            Self::Utf8 => return None,
            Self::Latin1 => Decoder::Single { highest: 0xff },
            Self::Ascii => Decoder::Single { highest: 0x7f },
            Self::Utf16 if start.starts_with(b"\xff\xfe") => Decoder::Many(UTF_16LE.new_decoder_with_bom_removal()),
            Self::Utf16 => Decoder::Many(UTF_16BE.new_decoder_with_bom_removal()),
            Self::Other(encoding) => Decoder::Many(encoding.new_decoder_with_bom_removal()),
        })
    }
}

/// Return the text of a file in UTF-8. `start` are its first bytes, which `file` still has.
pub fn decoded(file: Box<dyn Read + Send>, charset: Charset, start: &[u8]) -> Box<dyn Read + Send> {
    match charset.decoder(start) {
        None => file,
        Some(decoder) => {
            Box::new(Decoding { file, decoder, given: vec![0; BUFFER], text: Vec::new(), at: 0, is_done: false })
        }
    }
}

enum Decoder {
    /// A byte is the code of its character, if it is at most `highest`.
    Single {
        highest: u8,
    },
    Many(encoding_rs::Decoder),
}

impl Decoder {
    fn decode(&mut self, given: &[u8], is_last: bool, text: &mut Vec<u8>) {
        match self {
            Self::Single { highest } => text.extend(given.iter().flat_map(|byte| single(*byte, *highest)).flatten()),
            Self::Many(decoder) => many(decoder, given, is_last, text),
        }
    }
}

fn single(byte: u8, highest: u8) -> [Option<u8>; 2] {
    match byte {
        0..=0x7f => [Some(byte), None],
        _ if byte > highest => [Some(BROKEN), None],
        _ => [Some(0xc0 | (byte >> 6)), Some(0x80 | (byte & 0x3f))],
    }
}

fn many(decoder: &mut encoding_rs::Decoder, mut given: &[u8], is_last: bool, text: &mut Vec<u8>) {
    loop {
        let start = text.len();
        text.resize(start + given.len() * 3 + 16, 0);
        let (result, read, written) = decoder.decode_to_utf8_without_replacement(given, &mut text[start..], is_last);
        text.truncate(start + written);
        given = &given[read..];
        match result {
            DecoderResult::InputEmpty => return,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => text.push(BROKEN),
        }
    }
}

struct Decoding {
    file: Box<dyn Read + Send>,
    decoder: Decoder,
    given: Vec<u8>,
    text: Vec<u8>,
    at: usize,
    is_done: bool,
}

impl Read for Decoding {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() && !self.is_done {
            self.text.clear();
            self.at = 0;
            let count = self.file.read(&mut self.given)?;
            self.is_done = count == 0;
            self.decoder.decode(&self.given[..count], self.is_done, &mut self.text);
        }
        let count = buffer.len().min(self.text.len() - self.at);
        buffer[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
