//! Decompresses gzip, zstd and bzip2, recognised by content, whatever the name of the file says.
//!
//! INVARIANT: memory is bounded, however much a file expands: data is decompressed as it is read.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use crate::error::{External, ReadError, Result, Unreadable};

const BUFFER: usize = 128 * 1024;
/// A window of 128 MiB, the largest that zstd itself decompresses without being asked to.
const WINDOW_LOG: u32 = 27;

/// Bytes of a file whose first bytes were read already.
pub type Source = BufReader<Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>>;

/// Return the decompressed bytes of a file.
pub fn open(mut file: Box<dyn Read + Send>) -> Result<Box<dyn Read + Send>> {
    let start = first(&mut file, 16)?;
    let is = |magic: &[u8]| start.starts_with(magic);
    let codec = if is(b"\x1f\x8b\x08") {
        Codec::Gzip
    } else if is(b"\x28\xb5\x2f\xfd") || is_skippable(&start) {
        Codec::Zstd
    } else if is(b"BZh")
        && start.len() >= 10
        && (&start[4..10] == b"1AY&SY" || &start[4..10] == b"\x17\x72\x45\x38\x50\x90")
    {
        Codec::Bzip2
    } else {
        return Ok(Box::new(Cursor::new(start).chain(file)));
    };
    let source: Source = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(file));
    let inner: Box<dyn Read + Send> = match codec {
        Codec::Gzip => Box::new(Members { member: Some(flate2::bufread::GzDecoder::new(source)) }),
        Codec::Zstd => Box::new(frames(source)?),
        Codec::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
    };
    Ok(Box::new(Damage { inner, codec }))
}

/// Decompress the frames of a zstd file. The library skips skippable frames.
fn frames(source: Source) -> Result<zstd::stream::read::Decoder<'static, Source>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(decoder)
}

/// Return up to `count` first bytes.
pub fn first(file: &mut dyn Read, count: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(count);
    file.take(count as u64).read_to_end(&mut start)?;
    Ok(start)
}

fn is_skippable(start: &[u8]) -> bool {
    start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == [0x2a, 0x4d, 0x18]
}

#[derive(Debug, Clone, Copy)]
enum Codec {
    Gzip,
    Zstd,
    Bzip2,
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
        }
    }
}

/// Turns an error of a decoder into one about the content. Errors of the file itself pass through.
struct Damage {
    inner: Box<dyn Read + Send>,
    codec: Codec,
}

impl Read for Damage {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let of_decoder = matches!(
                error.kind(),
                io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::Other
            );
            if !of_decoder
                || error.raw_os_error().is_some()
                || error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<External>)
            {
                return error;
            }
            damaged(self.codec, &error.to_string())
        })
    }
}

fn damaged(codec: Codec, why: &str) -> io::Error {
    let what = Unreadable::file(format!("the {} data is damaged or incomplete: {why}", codec.name()));
    io::Error::other(External(Box::new(ReadError::Content(what))))
}

/// The members of a gzip file, one after the other. Bytes after the last member that are not a member are damage,
/// except zeros, with which tapes and disks are filled up.
struct Members {
    member: Option<flate2::bufread::GzDecoder<Source>>,
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(member) = self.member.take() else { break };
            let mut source = member.into_inner();
            let rest = source.fill_buf()?;
            if rest.is_empty() {
                break;
            }
            if rest[0] == 0 {
                return zeros(source).map(|()| 0);
            }
            self.member = Some(flate2::bufread::GzDecoder::new(source));
        }
        Ok(0)
    }
}

fn zeros(mut source: Source) -> io::Result<()> {
    loop {
        let rest = source.fill_buf()?;
        if rest.is_empty() {
            return Ok(());
        }
        if rest.iter().any(|byte| *byte != 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "other bytes follow the compressed data"));
        }
        let count = rest.len();
        source.consume(count);
    }
}
