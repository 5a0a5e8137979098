//! What is looked at before Arrow data from outside is trusted: depth of types, number of children, buffers and rows.
//!
//! The interface tells neither types nor lengths of buffers, so what lies in them is believed: `pyarrow` checks that where
//! a user's arrays come in (`schema.checked`). INVARIANT: what passes here is read without a panic of Arrow's importer.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_data::{ArrayData, layout};
use arrow_schema::{ArrowError, DataType};

/// So many types may lie within each other; `schema.arrow` has the same number. Arrow's C interface takes 63 levels, a map
/// being two, pyarrow 100 from Parquet, a list being two there; of 26 a thread with a stack of 256 KiB ends the process.
const DEEPEST: usize = 20;
/// Most rows of an array: offsets and row numbers have 32 bits.
const MOST_ROWS: usize = i32::MAX as usize;

/// An error where types lie within each other more than [`DEEPEST`] deep: all else that looks at a type is recursive.
pub(crate) fn check_depth(schema: &FFI_ArrowSchema) -> Result<(), ArrowError> {
    let mut left = vec![(schema, 0)]; // a schema of columns is a struct, and no level
    while let Some((found, level)) = left.pop() {
        if level > DEEPEST {
            let text = format!("types are nested more than {DEEPEST} deep\nhint: store deeper levels as text or bytes");
            return Err(ArrowError::SchemaError(text));
        }
        let below = if found.format() == "+m" { level } else { level + 1 }; // the entries of a map are no level
        left.extend(found.children().map(|child| (child, below)));
        left.extend(found.dictionary().map(|values| (values, below)));
    }
    Ok(())
}

/// An error where an array cannot be of this type by its number of children, buffers or rows.
pub(crate) fn check_structure(data_type: &DataType, array: &FFI_ArrowArray) -> Result<(), ArrowError> {
    let rows = array.len().checked_add(array.offset());
    if rows.is_none_or(|rows| rows > MOST_ROWS) {
        let found = array.len();
        return Err(ArrowError::CDataInterface(format!("an array has {found} rows, expected at most {MOST_ROWS}")));
    }
    let layout = layout(data_type);
    let buffers = layout.buffers.len() + usize::from(layout.can_contain_null_mask);
    if !layout.variadic && !matches!(data_type, DataType::Union(..)) {
        check_count(data_type, "buffers", array.num_buffers(), buffers)?;
    }
    if let DataType::Dictionary(_, values) = data_type {
        let text = "an array of a dictionary type has no dictionary";
        let dictionary = array.dictionary().ok_or_else(|| ArrowError::CDataInterface(text.to_owned()))?;
        return check_structure(values, dictionary);
    }
    let children: Vec<&DataType> = match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(item) | DataType::Map(item, _) => vec![item.data_type()],
        nested if nested.is_nested() => return Ok(()), // no state has them: they are refused when they are looked at
        _ => Vec::new(),
    };
    check_count(data_type, "children", array.num_children(), children.len())?;
    let mut numbered = children.into_iter().enumerate();
    numbered.try_for_each(|(place, child)| check_structure(child, array.child(place)))
}

/// An error where a field that is never null is null in a row that is there.
pub(crate) fn check_nulls(data: &ArrayData) -> Result<(), ArrowError> {
    data.validate_nulls()?;
    data.child_data().iter().try_for_each(check_nulls)
}

fn check_count(data_type: &DataType, what: &str, found: usize, expected: usize) -> Result<(), ArrowError> {
    if found == expected {
        return Ok(());
    }
    let text = format!("an array of {data_type} has {found} {what}, expected {expected}");
    Err(ArrowError::CDataInterface(text))
}
