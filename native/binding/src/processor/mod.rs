//! A Python processor (`transformWithState`) as the engine's `Processor`: what it is given, what it gives back, and its
//! variables, each a class of its own.
//!
//! Which keys, rows and timers, in which order, and what is written is decided in the engine. INVARIANT: a variable
//! keeps what a visit did to it until the visit ends; a visit that fails leaves nothing behind.

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

/// Adds what this room has to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<value_state::PyValueState>()?;
    module.add_class::<list_state::PyListState>()?;
    module.add_class::<map_state::PyMapState>()?;
    module.add_class::<timers::PyTimers>()?;
    module.add_class::<times::PyTimerValues>()?;
    module.add_class::<times::PyExpiredTimerInfo>()?;
    module.add_function(wrap_pyfunction!(factory::transform_with_state, module)?)
}
