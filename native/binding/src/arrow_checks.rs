//! Checks of imported Arrow data: nesting depth, and the numbers of children, buffers and rows.
//!
//! The interface has no lengths of buffers, so their content cannot be checked here. `pyarrow` checks the content of a
//! user's arrays (`schema.checked`).
//! INVARIANT: Arrow's importer does not panic on data that passed these checks.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_data::{ArrayData, layout};
use arrow_schema::{ArrowError, DataType};

/// The deepest nesting of types; `schema.arrow` has the same limit. Arrow's C interface supports 63 levels (a map
/// counts twice), and pyarrow 100 levels in Parquet (a list counts twice). But 26 levels overflow a stack of 256 KiB,
/// which ends the process.
const DEEPEST: usize = 20;
/// The most rows of an array, because offsets and row numbers have 32 bits.
const MOST_ROWS: usize = i32::MAX as usize;

/// Return an error if types are nested more than [`DEEPEST`] deep. This check is a loop, because recursion over a type
/// that is too deep would overflow the stack.
pub(crate) fn check_depth(schema: &FFI_ArrowSchema) -> Result<(), ArrowError> {
    let mut left = vec![(schema, 0)]; // a schema is a struct of columns, which does not count as a level
    while let Some((found, level)) = left.pop() {
        if level > DEEPEST {
            let text = format!("types are nested more than {DEEPEST} deep\nhint: store deeper levels as text or bytes");
            return Err(ArrowError::SchemaError(text));
        }
        let below = if found.format() == "+m" { level } else { level + 1 }; // the entries of a map do not count as a level
        left.extend(found.children().map(|child| (child, below)));
        left.extend(found.dictionary().map(|values| (values, below)));
    }
    Ok(())
}

/// Return an error if the number of children, buffers or rows of an array does not fit its type.
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
        nested if nested.is_nested() => return Ok(()), // state cannot have these types: they are refused later
        _ => Vec::new(),
    };
    check_count(data_type, "children", array.num_children(), children.len())?;
    let mut numbered = children.into_iter().enumerate();
    numbered.try_for_each(|(place, child)| check_structure(child, array.child(place)))
}

/// Return an error if a non-nullable field is null in a valid row.
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
