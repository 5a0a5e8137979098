//! A Python processor (`transformWithState`) as the engine's `Processor`: its arguments, its output, and its variables.
//!
//! The engine decides which keys, rows and timers are visited, in which order, and writes the state.
//! INVARIANT: a variable buffers the changes of a visit until the visit ends. A visit that fails changes nothing.

mod call_site;
mod calls;
mod current_key;
mod factory;
mod frames;
mod list_state;
mod map_state;
mod ordered;
mod shown;
mod timers;
mod times;
mod value_state;
mod variable_type;
mod written;

use pyo3::prelude::*;

/// Add the functions and classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<value_state::PyValueState>()?;
    module.add_class::<list_state::PyListState>()?;
    module.add_class::<map_state::PyMapState>()?;
    module.add_class::<timers::PyTimers>()?;
    module.add_class::<times::PyTimerValues>()?;
    module.add_class::<times::PyExpiredTimerInfo>()?;
    module.add_function(wrap_pyfunction!(factory::transform_with_state, module)?)
}
