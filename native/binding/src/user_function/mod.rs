//! Operators over a user's function: one file for each way of calling it, and one for each class that it is given.
//!
//! The engine decides which keys and rows are visited, in which order, and what happens to states.

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

/// Add the functions and classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<state::PyState>()?;
    module.add_class::<group_state::PyGroupState>()?;
    module.add_function(wrap_pyfunction!(by_row::map_with_state, module)?)?;
    module.add_function(wrap_pyfunction!(by_key::groups_with_state, module)?)?;
    module.add_function(wrap_pyfunction!(by_frame::pandas_with_state, module)?)?;
    Ok(())
}
