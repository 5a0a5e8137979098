//! Python `bytes` that are filled without the GIL, because copying a large segment takes long.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidemill_core::memory;

use crate::error::Raise;

/// The address of the bytes of a new object.
struct Target(*mut u8);

#[expect(unsafe_code, reason = "no other code has the pointer: the object is returned only after it is filled")]
// SAFETY: the bytes belong to an object that only `bytes_out` knows and holds a reference to.
unsafe impl Send for Target {}

/// `data` as `bytes`.
pub(crate) fn bytes_out(py: Python<'_>, data: Vec<u8>) -> PyResult<Bound<'_, PyBytes>> {
    let lacks = |_| memory::too_little("hand over a segment", data.len());
    let length = ffi::Py_ssize_t::try_from(data.len()).map_err(|_| lacks(())).raise(py)?;
    #[expect(unsafe_code, reason = "only C makes bytes that are filled afterwards")]
    // SAFETY: without a source, `length` uninitialised bytes are allocated; a new object is returned, or null.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), length)) };
    let made = made.map_err(|_| lacks(())).raise(py)?.cast_into::<PyBytes>()?;
    #[expect(unsafe_code, reason = "the object is filled before any other code has it")]
    // SAFETY: the object has `length` bytes, which no other code reads before this function returns it.
    {
        let target = Target(unsafe { ffi::PyBytes_AsString(made.as_ptr()) }.cast());
        py.detach(move || {
            let target = target;
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target.0, data.len()) };
        });
    }
    Ok(made)
}
