//! `tidemill._native`: this file only registers. One file a class; `_native.pyi` is the documentation.

use pyo3::prelude::*;

pub(crate) mod arrow;
mod arrow_checks;
mod bytes;
mod caller;
mod codec;
pub(crate) mod error;
mod frames;
mod function;
mod functions;
mod held;
mod key_rows;
pub(crate) mod map;
pub(crate) mod map_schema;
mod naming;
mod operator;
mod operator_factory;
mod processor;
pub(crate) mod run;
mod single_keys;
mod spark;
mod value;

/// The Rust engine.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::panics_are_errors(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(functions::key_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(functions::key_order, module)?)?;
    module.add_function(wrap_pyfunction!(functions::text_hash, module)?)?;
    module.add_function(wrap_pyfunction!(functions::names_apart, module)?)?;
    module.add_function(wrap_pyfunction!(functions::partition, module)?)?;
    module.add_function(wrap_pyfunction!(functions::time_bounds_ms, module)?)?;
    module.add_function(wrap_pyfunction!(functions::merge_count, module)?)?;
    module.add_class::<codec::PyCodec>()?;
    module.add_class::<map_schema::PyMapSchema>()?;
    module.add_class::<run::PyRun>()?;
    module.add_class::<map::PyStateMap>()?;
    module.add_class::<single_keys::PySingleKeys>()?;
    module.add_class::<operator::PyPass>()?;
    module.add_class::<operator::PyPrepared>()?;
    module.add_class::<operator::PyOperator>()?;
    module.add_class::<key_rows::PyKeyRows>()?;
    module.add_function(wrap_pyfunction!(operator_factory::aggregate, module)?)?;
    module.add_function(wrap_pyfunction!(operator_factory::sessions, module)?)?;
    module.add_function(wrap_pyfunction!(operator_factory::deduplicate, module)?)?;
    function::register(module)?;
    processor::register(module)
}
