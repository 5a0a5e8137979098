//! 32-bit offsets of texts and lists, which Arrow and Spark share. They limit what one column can hold.
//!
//! INVARIANT: a column that would exceed the limit is a clear error, never a panic.

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// Most bytes of text or binary, or list items, in one column.
const MOST: usize = i32::MAX as usize;

#[cfg(test)]
std::thread_local! {
    static MOST_HERE: std::cell::Cell<usize> = const { std::cell::Cell::new(MOST) };
}

/// Run `work` with a lower limit for the columns that it makes.
#[cfg(test)]
pub(crate) fn with_columns_of_at_most<T>(most: usize, work: impl FnOnce() -> T) -> T {
    MOST_HERE.set(most);
    let made = work();
    MOST_HERE.set(MOST);
    made
}

/// Return the most bytes of text or binary, or list items, that one column can hold.
pub(crate) fn most() -> usize {
    #[cfg(test)]
    return MOST_HERE.get();
    #[cfg(not(test))]
    MOST
}

/// Check that one column can hold `total` bytes of text or binary, or list items; otherwise `InvalidInput`.
pub fn check(total: usize) -> Result<()> {
    check_at_most(total, most())
}

/// Return `rows` copies of `value`; `InvalidInput` if memory is short. A column of nulls can claim any number of rows.
pub fn filled<T: Clone>(value: T, rows: usize) -> Result<Vec<T>> {
    let mut made = Vec::new();
    let no_room =
        |_| Error::InvalidInput(format!("not enough memory for {rows} rows at once\nhint: pass fewer rows per call"));
    made.try_reserve_exact(rows).map_err(no_room)?;
    made.resize(rows, value);
    Ok(made)
}

/// Return the offsets of parts with these lengths.
pub(crate) fn of_lengths(lengths: impl Iterator<Item = usize> + Clone) -> Result<OffsetBuffer<i32>> {
    check(lengths.clone().fold(0, usize::saturating_add))?;
    Ok(OffsetBuffer::from_lengths(lengths))
}

/// Return the largest span of offsets in a column or nested in it: bytes of text or binary, or items of lists and maps.
pub(crate) fn counted(column: &dyn Array) -> usize {
    let span = |offsets: &[i32]| match offsets {
        [first, .., last] => (*first as usize, (last - first) as usize),
        _ => (0, 0),
    };
    let items = |offsets: &[i32], values: &dyn Array| {
        let (first, count) = span(offsets);
        count.max(counted(&values.slice(first, count)))
    };
    match column.data_type() {
        DataType::Utf8 => span(column.as_string::<i32>().value_offsets()).1,
        DataType::Binary => span(column.as_binary::<i32>().value_offsets()).1,
        DataType::List(_) => items(column.as_list::<i32>().value_offsets(), column.as_list::<i32>().values()),
        DataType::Map(..) => items(column.as_map().value_offsets(), column.as_map().entries()),
        DataType::Struct(_) => column.as_struct().columns().iter().map(|field| counted(field)).max().unwrap_or(0),
        _ => 0,
    }
}

/// Return a binary column of these cells, without nulls.
pub(crate) fn binary(cells: impl Iterator<Item = Vec<u8>>) -> Result<BinaryArray> {
    binary_at_most(cells, MOST)
}

fn binary_at_most(cells: impl Iterator<Item = Vec<u8>>, most: usize) -> Result<BinaryArray> {
    let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
    for cell in cells {
        check_at_most(bytes.len() + cell.len(), most)?;
        bytes.extend_from_slice(&cell);
        lengths.push(cell.len());
    }
    Ok(BinaryArray::try_new(OffsetBuffer::from_lengths(lengths), Buffer::from_vec(bytes), None)?)
}

fn check_at_most(total: usize, most: usize) -> Result<()> {
    if total <= most { Ok(()) } else { Err(Error::column_too_large()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, ArrayRef, ListArray, NullArray, StringArray, StructArray};
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn too_many_rows_for_memory_are_one_clear_error() {
        assert_eq!(filled(7, 2).unwrap(), [7, 7]);
        let refused = filled(0_u64, 1 << 60).unwrap_err();
        assert!(
            matches!(&refused, Error::InvalidInput(text) if text.starts_with("not enough memory for")),
            "{refused}"
        );
    }

    #[test]
    fn a_column_that_is_too_large_is_a_clear_error() {
        assert!(check(MOST).is_ok());
        let said = check(MOST + 1).unwrap_err().to_string();
        assert!(said.starts_with("a column would hold more than 2147483647 bytes of text or binary, or list items\n"));
        assert!(said.contains("\nhint: run with more tasks"));
        assert_eq!(&*of_lengths([2, 0, 3].into_iter()).unwrap(), &[0, 2, 2, 5]);
        assert!(of_lengths([MOST, 1].into_iter()).is_err());
        assert!(of_lengths([usize::MAX, 1].into_iter()).is_err());
    }

    #[test]
    fn a_column_counts_as_much_as_its_largest_part() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("abc"), None, Some("de"), Some("fghi")]));
        assert_eq!((counted(&texts), counted(&texts.slice(1, 2))), (9, 2));
        let item = Arc::new(Field::new("item", texts.data_type().clone(), true));
        let ends = OffsetBuffer::from_lengths([3, 0, 1]);
        let lists: ArrayRef = Arc::new(ListArray::new(item, ends, Arc::clone(&texts), None));
        assert_eq!((counted(&lists), counted(&lists.slice(0, 1)), counted(&lists.slice(1, 1))), (9, 5, 0));
        let nothing: ArrayRef = Arc::new(NullArray::new(3));
        let field = |name: &str, column: &ArrayRef| Arc::new(Field::new(name, column.data_type().clone(), true));
        let both = StructArray::new(
            vec![field("nothing", &nothing), field("lists", &lists)].into(),
            vec![Arc::clone(&nothing), Arc::clone(&lists)],
            None,
        );
        assert_eq!((counted(&both), counted(&both.slice(2, 1))), (9, 4));
        assert_eq!(counted(&nothing), 0);
    }

    #[test]
    fn bytes_are_collected_up_to_the_limit() {
        let cells = [vec![1, 2], vec![], vec![3]];
        let column = binary_at_most(cells.clone().into_iter(), 3).unwrap();
        assert_eq!(column.iter().flatten().collect::<Vec<_>>(), cells);
        assert!(binary_at_most(cells.into_iter(), 2).is_err());
    }
}
