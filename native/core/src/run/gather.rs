//! Collecting rows of several runs into new columns.

use arrow_array::{Array, ArrayRef, UInt32Array, make_array, new_empty_array, new_null_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::error::Result;

/// A row of one of several sources, or no row at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    source: u32,
    row: u32,
}

impl Pick {
    /// No row: gathered as null.
    pub(crate) const NOWHERE: Self = Self { source: u32::MAX, row: 0 };

    #[inline]
    pub(crate) fn new(source: usize, row: usize) -> Self {
        Self { source: source as u32, row: row as u32 }
    }

    #[inline]
    pub(crate) fn source(self) -> usize {
        self.source as usize
    }

    #[inline]
    pub(crate) fn row(self) -> usize {
        self.row as usize
    }

    #[inline]
    pub(crate) fn is_nowhere(self) -> bool {
        self.source == u32::MAX
    }
}

/// The cells at `picks` of `sources`, which are of `data_type`, as one array, which shares nothing with them.
pub(crate) fn gather(data_type: &DataType, sources: &[&dyn Array], picks: &[Pick]) -> Result<ArrayRef> {
    if sources.iter().all(|source| source.null_count() == source.len()) {
        return Ok(new_null_array(data_type, picks.len()));
    }
    match data_type.primitive_width() {
        Some(1) => fixed::<i8>(data_type, sources, picks),
        Some(2) => fixed::<i16>(data_type, sources, picks),
        Some(4) => fixed::<i32>(data_type, sources, picks),
        Some(8) => fixed::<i64>(data_type, sources, picks),
        Some(16) => fixed::<i128>(data_type, sources, picks),
        _ => other(data_type, sources, picks),
    }
}

/// Values of one width, whatever they mean.
fn fixed<T: ArrowNativeType>(data_type: &DataType, sources: &[&dyn Array], picks: &[Pick]) -> Result<ArrayRef> {
    let data: Vec<ArrayData> = sources.iter().map(|source| source.to_data()).collect();
    let values: Vec<&[T]> = data.iter().map(|data| data.buffer::<T>(0)).collect();
    let has_nowhere = picks.iter().any(|pick| pick.is_nowhere());
    let gathered: Vec<T> = match values.as_slice() {
        [only] if !has_nowhere => picks.iter().map(|pick| only[pick.row()]).collect(),
        _ => picks.iter().map(|pick| values.get(pick.source()).map_or(T::default(), |of| of[pick.row()])).collect(),
    };
    let nulls = (has_nowhere || data.iter().any(|data| data.null_count() > 0)).then(|| {
        let is_valid = |pick: Pick| data.get(pick.source()).is_some_and(|data| data.is_valid(pick.row()));
        NullBuffer::new(BooleanBuffer::collect_bool(picks.len(), |place| is_valid(picks[place])))
    });
    let built = ArrayData::builder(data_type.clone()).len(picks.len()).add_buffer(Buffer::from_vec(gathered));
    Ok(make_array(built.nulls(nulls).build()?))
}

/// Anything else, by Arrow's own functions.
fn other(data_type: &DataType, sources: &[&dyn Array], picks: &[Pick]) -> Result<ArrayRef> {
    match sources {
        [] => Ok(new_empty_array(data_type)),
        [only] => {
            let row = |pick: &Pick| (!pick.is_nowhere()).then_some(pick.row);
            Ok(take(*only, &picks.iter().map(row).collect::<UInt32Array>(), None)?)
        }
        _ => {
            let nothing = new_null_array(data_type, 1);
            let sources: Vec<&dyn Array> = sources.iter().copied().chain([nothing.as_ref()]).collect();
            let place =
                |pick: &Pick| if pick.is_nowhere() { (sources.len() - 1, 0) } else { (pick.source(), pick.row()) };
            Ok(interleave(&sources, &picks.iter().map(place).collect::<Vec<_>>())?)
        }
    }
}
