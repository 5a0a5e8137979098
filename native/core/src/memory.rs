//! Lack of memory as an error: what may take much of it is asked for before it is made.
//!
//! Rust ends a process that gets no memory. So what grows with a user's data is asked for, part by part where it is
//! collected (`reserve`), else as a whole beforehand (`check_available`), by what it will take at most or, of nested columns, on average.

use std::io;

use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Less than this is just taken: where so little is not there, nothing goes on for long.
const SMALL: usize = 1 << 20;

/// `InvalidInput` where there is no memory for `bytes` more; `what` says what for. Nothing is kept.
pub fn check_available(what: &str, bytes: usize) -> Result<()> {
    // The system is asked, not the allocator: that would keep what it gets, and who counts would think that it is used.
    match bytes {
        0..SMALL => Ok(()),
        _ => MmapMut::map_anon(bytes).map(drop).map_err(|_| too_little(what, bytes)),
    }
}

/// What is said where there is no memory to do `what`.
#[must_use]
pub fn too_little(what: &str, bytes: usize) -> Error {
    Error::InvalidInput(format!(
        "cannot {what}: there is no memory for {bytes} bytes more\n\
         hint: give the process more memory, or run with more tasks, so that a key range holds fewer rows"
    ))
}

/// Room for `more` in `vec`; `InvalidInput` where there is none.
#[inline]
pub(crate) fn reserve<T>(what: &str, vec: &mut Vec<T>, more: usize) -> Result<()> {
    // It grows by as much as it holds, so that it seldom moves, where there is memory for that.
    let made = vec.try_reserve(more).or_else(|_| vec.try_reserve_exact(more));
    made.map_err(|_| too_little(what, (vec.len() + more).saturating_mul(size_of::<T>())))
}

/// An empty vector with room for `rows`; `InvalidInput` where there is none.
pub(crate) fn with_capacity<T>(what: &str, rows: usize) -> Result<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(rows).map_err(|_| too_little(what, rows.saturating_mul(size_of::<T>())))?;
    Ok(made)
}

/// Bytes that are written into memory.
pub(crate) struct MemoryWriter(pub(crate) Vec<u8>);

impl io::Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        reserve("write", &mut self.0, bytes.len()).map_err(|lack| io::Error::new(io::ErrorKind::OutOfMemory, lack))?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_one_clear_error() {
        assert!(check_available("read", 0).is_ok() && check_available("read", 64 << 20).is_ok());
        assert!(with_capacity::<u8>("read", 10).unwrap().capacity() >= 10);
        let mut words = vec![1_u64];
        reserve("read", &mut words, 3).unwrap();
        assert!(words.capacity() >= 4);
        let lacking = [
            check_available("read", usize::MAX >> 1),
            reserve("read", &mut words, 1 << 58),
            with_capacity::<u64>("read", 1 << 58).map(drop),
        ];
        for refused in lacking {
            let said = refused.unwrap_err().to_string();
            assert!(
                said.starts_with("cannot read: there is no memory for ") && said.contains("\nhint: give"),
                "{said}"
            );
        }
        assert_eq!(words, [1]);
    }
}
