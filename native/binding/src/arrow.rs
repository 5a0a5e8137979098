//! Imports and exports Arrow data by the PyCapsule interface (`__arrow_c_array__`, `__arrow_c_schema__`), without
//! copies.
//!
//! Any object with the interface is accepted. Exported objects are `pyarrow` objects.
//! INVARIANT: a capsule's struct is moved out of the capsule, so that exactly one side releases it.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type, to_ffi};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::arrow_checks::{check_depth, check_nulls, check_structure};
use crate::error::invalid;
use crate::naming::type_name;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// Import a schema from a `pyarrow.Schema` or a similar object.
pub(crate) fn schema_in(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let capsule = call(object, "__arrow_c_schema__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    if is_released(pointer.cast(), SCHEMA_RELEASE) {
        return Err(invalid(object.py(), "cannot import an Arrow schema: its capsule was already consumed"));
    }
    #[expect(unsafe_code, reason = "the capsule's name says that it holds an ArrowSchema, which lives as long as it")]
    let schema = unsafe { pointer.as_ref() };
    check_depth(schema).and_then(|()| Schema::try_from(schema)).map_err(|error| refused(object.py(), &error))
}

/// Export `schema` as a `pyarrow.Schema`.
pub(crate) fn schema_out<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyAny>> {
    let exported = FFI_ArrowSchema::try_from(schema).map_err(|error| refused(py, &error))?;
    let capsule = PyCapsule::new_with_value(py, exported, SCHEMA)?.unbind();
    py.import("pyarrow")?.getattr("schema")?.call1((ExportedSchema { capsule },))
}

/// Import an array from a `pyarrow.Array` or a similar object.
pub(crate) fn array_in(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(make_array(data_in(object)?))
}

/// Export `array` as a `pyarrow.Array`.
pub(crate) fn array_out<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    let exported = export(py, &array.to_data())?;
    py.import("pyarrow")?.getattr("array")?.call1((exported,))
}

/// Import a batch from a `pyarrow.RecordBatch` or a similar object. Metadata of fields and schema is dropped.
pub(crate) fn batch_in(object: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let data = data_in(object)?;
    if !matches!(data.data_type(), DataType::Struct(_)) || data.null_count() > 0 {
        let found = data.data_type();
        return Err(invalid(object.py(), &format!("expected a pyarrow.RecordBatch, found an array of {found}")));
    }
    Ok(RecordBatch::from(StructArray::from(data)))
}

/// Export `batch` as a `pyarrow.RecordBatch`.
pub(crate) fn batch_out<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyAny>> {
    let rows = StructArray::try_new_with_length(
        batch.schema().fields().clone(),
        batch.columns().to_vec(),
        None,
        batch.num_rows(),
    )
    .map_err(|error| refused(py, &error))?;
    let exported = export(py, &rows.to_data())?;
    py.import("pyarrow")?.getattr("record_batch")?.call1((exported,))
}

/// Make a batch of `columns`. `rows` is needed because there may be no column that has the number of rows.
pub(crate) fn batch(schema: Arc<Schema>, columns: Vec<ArrayRef>, rows: usize) -> tidemill_core::Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

fn data_in(object: &Bound<'_, PyAny>) -> PyResult<ArrayData> {
    let py = object.py();
    let pair = call(object, "__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.cast::<PyTuple>()?.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    if is_released(schema.cast(), SCHEMA_RELEASE) || is_released(array.cast(), ARRAY_RELEASE) {
        return Err(invalid(py, "cannot import Arrow data: its capsules were already consumed"));
    }
    #[expect(unsafe_code, reason = "the capsules' names say what they hold; `from_raw` takes the array out of its own")]
    let (array, schema) = unsafe { (FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let mut data = imported(array, schema).map_err(|error| refused(object.py(), &error))?;
    data.align_buffers(); // other producers align 128-bit numbers to 8 bytes only
    Ok(data)
}

fn imported(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Result<ArrayData, ArrowError> {
    check_depth(schema)?;
    let data_type = DataType::try_from(schema)?;
    check_structure(&data_type, &array)?;
    #[expect(unsafe_code, reason = "the array has the children and buffers of its type; their contents are trusted")]
    let data = unsafe { from_ffi_and_data_type(array, data_type) }?;
    check_nulls(&data)?;
    Ok(data)
}

/// The number of words before `release` in the structs of the Arrow C interface.
const SCHEMA_RELEASE: usize = 7;
const ARRAY_RELEASE: usize = 8;

/// Whether the struct was moved out of its capsule. Then its `release` is null, and its other fields are meaningless.
fn is_released(structure: NonNull<*const c_void>, release: usize) -> bool {
    const { assert!(size_of::<usize>() == size_of::<i64>()) };
    #[expect(unsafe_code, reason = "the capsule's name says which struct it holds, all of whose fields are words")]
    let release = unsafe { structure.add(release).read() };
    release.is_null()
}

fn call<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Bound<'py, PyAny>> {
    if !object.hasattr(method)? {
        let found = type_name(object);
        return Err(invalid(object.py(), &format!("expected an Arrow object (with `{method}`), found `{found}`")));
    }
    object.call_method0(method)
}

fn export(py: Python<'_>, data: &ArrayData) -> PyResult<ExportedArray> {
    let (array, schema) = to_ffi(data).map_err(|error| refused(py, &error))?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    Ok(ExportedArray { capsules: PyTuple::new(py, [schema, array])?.unbind() })
}

fn refused(py: Python<'_>, error: &ArrowError) -> PyErr {
    invalid(py, &format!("cannot pass Arrow data between Rust and Python: {error}"))
}

/// An array that is exported to Python. The importer moves the structs out of the capsules and marks them as released.
#[pyclass(frozen)]
struct ExportedArray {
    capsules: Py<PyTuple>,
}

#[pymethods]
impl ExportedArray {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__(&self, py: Python<'_>, requested_schema: Option<&Bound<'_, PyAny>>) -> Py<PyTuple> {
        let _ = requested_schema; // the interface lets a producer ignore it
        self.capsules.clone_ref(py)
    }
}

/// A schema that is exported to Python.
#[pyclass(frozen)]
struct ExportedSchema {
    capsule: Py<PyCapsule>,
}

#[pymethods]
impl ExportedSchema {
    fn __arrow_c_schema__(&self, py: Python<'_>) -> Py<PyCapsule> {
        self.capsule.clone_ref(py)
    }
}
