//! Operators over a user's function: a file for each way of calling it, with what makes the operator, and the objects
//! that the function is given.
//!
//! Which keys, which rows, in which order, and what becomes of states is decided in the engine.

mod argument_tuple;
mod by_frame;
mod by_key;
mod by_row;
mod declaration;
mod group_state;
mod key_calls;
mod lent_state;
mod returned_builder;
mod state;

use pyo3::prelude::*;

pub(crate) use declaration::{Input, late_rows};

/// Adds the functions and classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<state::PyState>()?;
    module.add_class::<group_state::PyGroupState>()?;
    module.add_function(wrap_pyfunction!(by_row::map_with_state, module)?)?;
    module.add_function(wrap_pyfunction!(by_key::groups_with_state, module)?)?;
    module.add_function(wrap_pyfunction!(by_frame::pandas_with_state, module)?)?;
    Ok(())
}
