//! Collecting rows of several runs into new columns.

use arrow_array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::error::Result;

/// The cells at `picks` (source, row) of `sources`, which are of `data_type`, as one array.
pub(crate) fn gather(data_type: &DataType, sources: &[&dyn Array], picks: &[(usize, usize)]) -> Result<ArrayRef> {
    match sources {
        [] => Ok(new_empty_array(data_type)),
        [only] => Ok(take(*only, &picks.iter().map(|pick| pick.1 as u32).collect::<UInt32Array>(), None)?),
        _ => Ok(interleave(sources, picks)?),
    }
}
