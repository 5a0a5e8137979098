//! The module `tidemill._native`. This file only registers functions and classes, and each class has its own file.
//! The documentation is in `_native.pyi`.

use pyo3::prelude::*;

pub(crate) mod arrow;
mod arrow_checks;
mod bytes;
mod caller;
mod codec;
pub(crate) mod error;
mod free_functions;
mod key_rows;
mod lent_value;
pub(crate) mod map;
pub(crate) mod map_schema;
mod naming;
mod operator;
mod operator_factory;
mod processor;
mod reader;
mod returned_frames;
pub(crate) mod run;
mod single_keys;
mod spark;
mod user_function;
mod value;

/// The Rust engine.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::raise_panics_as_errors(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(free_functions::key_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::key_order, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::text_hash, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::distinct_names, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::partition, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::in_plan_order, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::time_bounds_ms, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::after_ms, module)?)?;
    module.add_function(wrap_pyfunction!(free_functions::merge_count, module)?)?;
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
    user_function::register(module)?;
    processor::register(module)?;
    reader::register(module)
}
