//! Errors instead of crashes when memory runs out.
//!
//! Rust aborts the process when an allocation fails. So memory that grows with a user's data is requested first, either
//! in parts while it is filled (`reserve`) or once beforehand (`check_available`). A check beforehand uses an upper
//! bound; for nested columns it uses an average.

use std::io;

use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Smaller requests are not checked: a process that lacks this little memory cannot go on anyway.
const SMALL: usize = 1 << 20;

/// Check that `bytes` more memory is available for `what`; otherwise `InvalidInput`. Nothing stays allocated.
pub fn check_available(what: &str, bytes: usize) -> Result<()> {
    // Ask the system, not the allocator: the allocator would keep the memory, and memory accounting would count it as
    // in use.
    match bytes {
        0..SMALL => Ok(()),
        _ => MmapMut::map_anon(bytes).map(drop).map_err(|_| too_little(what, bytes)),
    }
}

/// Return the error for too little memory to do `what`.
#[must_use]
pub fn too_little(what: &str, bytes: usize) -> Error {
    Error::InvalidInput(format!(
        "cannot {what}: not enough memory for another {bytes} bytes\n\
         hint: give the process more memory, or run with more tasks so that each key range holds fewer rows"
    ))
}

/// Reserve room for `more` items in `vec`; `InvalidInput` if memory is short.
#[inline]
pub(crate) fn reserve<T>(what: &str, vec: &mut Vec<T>, more: usize) -> Result<()> {
    // Doubling the capacity keeps moves rare. Fall back to the exact size if there is no memory for the double.
    let made = vec.try_reserve(more).or_else(|_| vec.try_reserve_exact(more));
    made.map_err(|_| too_little(what, (vec.len() + more).saturating_mul(size_of::<T>())))
}

/// Return an empty vector with room for `rows`; `InvalidInput` if memory is short.
pub(crate) fn with_capacity<T>(what: &str, rows: usize) -> Result<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(rows).map_err(|_| too_little(what, rows.saturating_mul(size_of::<T>())))?;
    Ok(made)
}

/// A writer into memory that reports too little memory as an error.
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
    fn lack_of_memory_is_one_clear_error() {
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
            assert!(said.starts_with("cannot read: not enough memory for ") && said.contains("\nhint: give"), "{said}");
        }
        assert_eq!(words, [1]);
    }
}
