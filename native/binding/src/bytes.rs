//! Bytes for Python, filled while other threads of Python run: to copy many takes long.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidemill_core::memory;

use crate::error::Raise;

/// Where the bytes of a new object begin.
struct Room(*mut u8);

#[expect(unsafe_code, reason = "nobody else has the pointer: the object is handed out when it is filled")]
// SAFETY: the bytes belong to an object that only `bytes_out` knows, and to which it holds a reference.
unsafe impl Send for Room {}

/// `data` as `bytes`.
pub(crate) fn bytes_out(py: Python<'_>, data: Vec<u8>) -> PyResult<Bound<'_, PyBytes>> {
    let lacks = |_| memory::too_little("hand over a segment", data.len());
    let length = ffi::Py_ssize_t::try_from(data.len()).map_err(|_| lacks(())).raise(py)?;
    #[expect(unsafe_code, reason = "only C makes bytes that are filled afterwards")]
    // SAFETY: without a source `length` bytes are made, not filled; an object of our own comes back, or null.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), length)) };
    let made = made.map_err(|_| lacks(())).raise(py)?.cast_into::<PyBytes>()?;
    #[expect(unsafe_code, reason = "the bytes of an object that nobody else has are filled")]
    // SAFETY: the object has room for `length` bytes, which nobody looks at before this function returns it.
    {
        let room = Room(unsafe { ffi::PyBytes_AsString(made.as_ptr()) }.cast());
        py.detach(move || {
            let room = room;
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), room.0, data.len()) };
        });
    }
    Ok(made)
}
