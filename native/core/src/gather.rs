//! Collecting cells of several source columns into one new column.

use std::hint::black_box;

use arrow_array::{Array, ArrayRef, UInt32Array, make_array, new_empty_array, new_null_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::error::Result;
use crate::{memory, offsets};

/// The action that messages about too little memory name.
const COLLECT: &str = "collect the rows of a column";
/// Texts whose bytes are read together.
const TOGETHER: usize = 64;

/// A row of one of several sources, or no row at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// Number of the source.
    pub(crate) source: u32,
    /// Row of it.
    pub(crate) row: u32,
}

impl Pick {
    /// No row: gathers a null.
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

/// Collect the cells at `picks` of `sources`, which all have type `data_type`, into a new array that shares no memory
/// with them.
pub(crate) fn gather(data_type: &DataType, sources: &[&dyn Array], picks: &[Pick]) -> Result<ArrayRef> {
    let mut gathering = Gathering::new(data_type, sources, picks.len())?;
    gathering.add(picks)?;
    gathering.finish()
}

/// A column that is being collected, a few cells at a time.
pub(crate) struct Gathering<'a> {
    data_type: DataType,
    sources: &'a [&'a dyn Array],
    /// The sources, if cells are collected one by one.
    data: Vec<ArrayData>,
    rows: usize,
    /// Which cells are not null, once any cell is null.
    valid: Option<BooleanBufferBuilder>,
    cells: Collected,
}

/// The cells collected so far, by their memory layout.
enum Collected {
    /// All sources are null in all rows.
    Nothing,
    Wide1(Vec<i8>),
    Wide2(Vec<i16>),
    Wide4(Vec<i32>),
    Wide8(Vec<i64>),
    Wide16(Vec<i128>),
    /// The end offset of each text or binary, and the bytes of all.
    Bytes(Vec<i32>, Vec<u8>),
    /// Any other type: collected at the end by Arrow's own functions.
    Other(Vec<Pick>),
}

impl<'a> Gathering<'a> {
    /// Start an empty column over `sources`, which all have type `data_type`; about `rows` cells will be added.
    pub(crate) fn new(data_type: &DataType, sources: &'a [&'a dyn Array], rows: usize) -> Result<Self> {
        let is_nothing = sources.iter().all(|source| source.null_count() == source.len());
        let cells = match data_type.primitive_width() {
            _ if is_nothing => Collected::Nothing,
            Some(1) => Collected::Wide1(memory::with_capacity(COLLECT, rows)?),
            Some(2) => Collected::Wide2(memory::with_capacity(COLLECT, rows)?),
            Some(4) => Collected::Wide4(memory::with_capacity(COLLECT, rows)?),
            Some(8) => Collected::Wide8(memory::with_capacity(COLLECT, rows)?),
            Some(16) => Collected::Wide16(memory::with_capacity(COLLECT, rows)?),
            _ if matches!(data_type, DataType::Utf8 | DataType::Binary) => {
                let mut ends = memory::with_capacity(COLLECT, rows + 1)?;
                ends.push(0);
                Collected::Bytes(ends, Vec::new())
            }
            _ => Collected::Other(Vec::new()),
        };
        let data = match cells {
            Collected::Nothing | Collected::Other(_) => Vec::new(),
            _ => sources.iter().map(|source| source.to_data()).collect(),
        };
        Ok(Self { data_type: data_type.clone(), sources, data, rows: 0, valid: None, cells })
    }

    /// Add the cells at `picks`.
    pub(crate) fn add(&mut self, picks: &[Pick]) -> Result<()> {
        let has_nowhere = picks.iter().any(|pick| pick.is_nowhere());
        let data = self.data.as_slice();
        match &mut self.cells {
            Collected::Nothing => {}
            Collected::Wide1(cells) => fixed(cells, data, picks, has_nowhere),
            Collected::Wide2(cells) => fixed(cells, data, picks, has_nowhere),
            Collected::Wide4(cells) => fixed(cells, data, picks, has_nowhere),
            Collected::Wide8(cells) => fixed(cells, data, picks, has_nowhere),
            Collected::Wide16(cells) => fixed(cells, data, picks, has_nowhere),
            Collected::Bytes(ends, bytes) => {
                let sources: Vec<TextSource<'_>> = data.iter().map(TextSource::new).collect();
                picks.chunks(TOGETHER).try_for_each(|some| texts(ends, bytes, &sources, some))?;
            }
            Collected::Other(all) => all.extend_from_slice(picks),
        }
        let has_nulls = self.valid.is_some() || has_nowhere || data.iter().any(|data| data.null_count() > 0);
        if !data.is_empty() && has_nulls {
            let valid = self.valid.get_or_insert_with(|| {
                let mut valid = BooleanBufferBuilder::new(self.rows + picks.len());
                valid.append_n(self.rows, true);
                valid
            });
            let is_valid = |pick: &Pick| data.get(pick.source()).is_some_and(|data| data.is_valid(pick.row()));
            picks.iter().for_each(|pick| valid.append(is_valid(pick)));
        }
        self.rows += picks.len();
        Ok(())
    }

    /// Return the column.
    pub(crate) fn finish(self) -> Result<ArrayRef> {
        let buffers = match self.cells {
            Collected::Nothing => return Ok(new_null_array(&self.data_type, self.rows)),
            Collected::Wide1(cells) => vec![Buffer::from_vec(cells)],
            Collected::Wide2(cells) => vec![Buffer::from_vec(cells)],
            Collected::Wide4(cells) => vec![Buffer::from_vec(cells)],
            Collected::Wide8(cells) => vec![Buffer::from_vec(cells)],
            Collected::Wide16(cells) => vec![Buffer::from_vec(cells)],
            Collected::Bytes(ends, mut bytes) => {
                bytes.shrink_to_fit(); // runs keep this memory
                vec![Buffer::from_vec(ends), Buffer::from_vec(bytes)]
            }
            Collected::Other(picks) => return other(&self.data_type, self.sources, &picks),
        };
        let nulls = self.valid.map(|mut valid| NullBuffer::new(valid.finish()));
        Ok(make_array(ArrayData::builder(self.data_type).len(self.rows).buffers(buffers).nulls(nulls).build()?))
    }
}

/// Collect values of a fixed width, whatever their type.
fn fixed<T: ArrowNativeType>(cells: &mut Vec<T>, data: &[ArrayData], picks: &[Pick], has_nowhere: bool) {
    match data {
        [only] if !has_nowhere => {
            let values = only.buffer::<T>(0);
            cells.extend(picks.iter().map(|pick| values[pick.row()]));
        }
        _ => {
            let values: Vec<&[T]> = data.iter().map(|data| data.buffer::<T>(0)).collect();
            cells.extend(picks.iter().map(|pick| values.get(pick.source()).map_or(T::default(), |of| of[pick.row()])));
        }
    }
}

/// The texts or binaries of one source.
struct TextSource<'a> {
    offsets: &'a [i32],
    bytes: &'a [u8],
    nulls: Option<&'a NullBuffer>,
}

impl<'a> TextSource<'a> {
    fn new(data: &'a ArrayData) -> Self {
        let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
        Self { offsets: data.buffer(0), bytes: &data.buffers()[1], nulls }
    }

    /// Return the bytes of a row. A null row is empty, whatever bytes are stored under it.
    fn cell(&self, row: usize) -> &'a [u8] {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return &[];
        }
        &self.bytes[self.offsets[row].unsigned_abs() as usize..self.offsets[row + 1].unsigned_abs() as usize]
    }
}

/// Each loop does little work, so that the processor overlaps many reads: first the offsets, then the first bytes of
/// each text, then the whole texts.
fn texts(ends: &mut Vec<i32>, bytes: &mut Vec<u8>, sources: &[TextSource<'_>], picks: &[Pick]) -> Result<()> {
    let offset = |pick: &Pick| sources.get(pick.source()).map_or(0, |source| source.offsets[pick.row()]);
    black_box(picks.iter().fold(0, |seen, pick| seen ^ offset(pick)));
    let mut cells: [&[u8]; TOGETHER] = [&[]; TOGETHER];
    let cells = &mut cells[..picks.len()];
    for (cell, pick) in cells.iter_mut().zip(picks) {
        *cell = sources.get(pick.source()).map_or(&[], |source| source.cell(pick.row()));
    }
    black_box(cells.iter().fold(0, |seen, cell| seen ^ cell.first().copied().unwrap_or(0)));
    let more = cells.iter().fold(0_usize, |total, cell| total.saturating_add(cell.len()));
    offsets::check(bytes.len().saturating_add(more))?;
    memory::reserve(COLLECT, bytes, more)?;
    for cell in cells {
        bytes.extend_from_slice(cell);
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "checked above")]
        ends.push(bytes.len() as i32);
    }
    Ok(())
}

/// Collect cells of any other type by Arrow's own functions.
fn other(data_type: &DataType, sources: &[&dyn Array], picks: &[Pick]) -> Result<ArrayRef> {
    memory::check_available(COLLECT, bytes_at(sources, picks.len()))?;
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

/// Estimate the bytes needed to collect `picked` rows, if they are like the average row of `sources`. Buffers that grow
/// can take up to twice their content.
fn bytes_at(sources: &[&dyn Array], picked: usize) -> usize {
    let rows: usize = sources.iter().map(|source| source.len()).sum();
    let bytes = sources.iter().map(|source| source.to_data().get_slice_memory_size().unwrap_or(0));
    let bytes = bytes.fold(0_usize, usize::saturating_add);
    bytes.div_ceil(rows.max(1)).saturating_mul(picked).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, ListBuilder};
    use arrow_array::cast::AsArray;
    use arrow_array::{
        BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array, ListArray,
        NullArray, StringArray,
    };
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;
    use proptest::prelude::*;

    use super::*;

    /// `numbers` as one column for each memory layout.
    fn columns(numbers: &[Option<i8>]) -> Vec<ArrayRef> {
        let text = |number: &Option<i8>| number.map(|number| "ä".repeat(number.unsigned_abs().into()));
        let mut lists = ListBuilder::new(Int64Builder::new());
        for number in numbers {
            lists.append_option(number.map(|number| (0..i64::from(number % 4)).map(Some)));
        }
        let wide = |number: &Option<i8>| number.map(i128::from);
        vec![
            Arc::new(numbers.iter().copied().collect::<Int8Array>()),
            Arc::new(numbers.iter().map(|number| number.map(i16::from)).collect::<Int16Array>()),
            Arc::new(numbers.iter().map(|number| number.map(i32::from)).collect::<Int32Array>()),
            Arc::new(numbers.iter().map(|number| number.map(f64::from)).collect::<Float64Array>()),
            Arc::new(numbers.iter().map(wide).collect::<Decimal128Array>()),
            Arc::new(numbers.iter().map(text).collect::<StringArray>()),
            Arc::new(numbers.iter().map(text).map(|text| text.map(String::into_bytes)).collect::<BinaryArray>()),
            Arc::new(numbers.iter().map(|number| number.map(|number| number > 3)).collect::<BooleanArray>()),
            Arc::new(lists.finish()),
        ]
    }

    fn a_source() -> impl Strategy<Value = Vec<Option<i8>>> {
        prop_oneof![
            prop::collection::vec(prop::option::of(0i8..9), 1..20),
            prop::collection::vec((0i8..9).prop_map(Some), 1..20),
            prop::collection::vec(Just(None), 1..3),
        ]
    }

    /// Bytes stored under a null need not be valid text, and must not be copied.
    #[test]
    fn bytes_under_a_null_are_not_copied() {
        let offsets = OffsetBuffer::new(vec![0, 1, 2].into());
        let data = ArrayData::builder(DataType::Binary)
            .len(2)
            .add_buffer(offsets.into_inner().into_inner())
            .add_buffer(Buffer::from_vec(b"\xffa".to_vec()))
            .nulls(Some(NullBuffer::from(vec![false, true])));
        let binary = BinaryArray::from(data.build().unwrap());
        let picks = [Pick::new(0, 1), Pick::new(0, 0), Pick::new(0, 1)];
        let gathered = gather(&DataType::Binary, &[&binary], &picks).unwrap();
        let gathered = gathered.as_binary::<i32>();
        assert_eq!(gathered.iter().collect::<Vec<_>>(), [Some(b"a".as_slice()), None, Some(b"a")]);
        assert_eq!(gathered.value_data(), b"aa");
    }

    /// One row: a list of all of `items`.
    fn list(items: ArrayRef) -> ArrayRef {
        let offsets = OffsetBuffer::new(vec![0, items.len() as i32].into());
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        Arc::new(ListArray::new(item, offsets, items, None))
    }

    #[test]
    fn rows_that_exceed_one_column_are_refused() {
        let nulls = list(Arc::new(NullArray::new(1 << 30))); // a null array takes no memory
        for half in [list(nulls.clone()), nulls] {
            let all = |sources: &[&dyn Array], picks: &[Pick]| gather(half.data_type(), sources, picks);
            let (first, second) = (Pick::new(0, 0), Pick::new(1, 0));
            assert_eq!(all(&[&half], &[first]).unwrap().len(), 1);
            for refused in [all(&[&half], &[first, first]), all(&[&half, &half], &[first, second])] {
                assert!(refused.unwrap_err().to_string().starts_with("a column would hold more than"));
            }
            let sources: [&dyn Array; 1] = [&half];
            let mut in_parts = Gathering::new(half.data_type(), &sources, 2).unwrap();
            in_parts.add(&[first]).unwrap();
            in_parts.add(&[first]).unwrap();
            assert!(in_parts.finish().unwrap_err().to_string().starts_with("a column would hold more than"));
        }
    }

    proptest! {
        /// Cells gathered in any number of parts equal those that Arrow interleaves.
        #[test]
        fn gathered_cells_are_those_picked(
            sources in prop::collection::vec(a_source(), 1..4),
            picked in prop::collection::vec(prop::option::weighted(0.9, any::<(prop::sample::Index, prop::sample::Index)>()), 0..300),
            part in 1usize..200, skipped in 0usize..2,
        ) {
            let skipped = |numbers: &Vec<Option<i8>>| skipped.min(numbers.len() - 1);
            let by_source: Vec<Vec<ArrayRef>> = sources.iter().map(|numbers| columns(numbers)).collect();
            let pick = |picked: &Option<(prop::sample::Index, prop::sample::Index)>| {
                picked.map_or(Pick::NOWHERE, |(source, row)| {
                    let source = source.index(sources.len());
                    Pick::new(source, row.index(sources[source].len() - skipped(&sources[source])))
                })
            };
            let picks: Vec<Pick> = picked.iter().map(pick).collect();
            for column in 0..by_source[0].len() {
                let slices: Vec<ArrayRef> = by_source.iter().zip(&sources).map(|(columns, numbers)| {
                    columns[column].slice(skipped(numbers), numbers.len() - skipped(numbers))
                }).collect();
                let data_type = slices[0].data_type();
                let nothing = new_null_array(data_type, 1);
                let all: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).chain([nothing.as_ref()]).collect();
                let place = |pick: &Pick| if pick.is_nowhere() { (all.len() - 1, 0) } else { (pick.source(), pick.row()) };
                let expected = interleave(&all, &picks.iter().map(place).collect::<Vec<_>>()).unwrap();
                let sources = &all[..all.len() - 1];
                prop_assert_eq!(&gather(data_type, sources, &picks).unwrap(), &expected);
                let mut gathering = Gathering::new(data_type, sources, picks.len()).unwrap();
                picks.chunks(part).for_each(|some| gathering.add(some).unwrap());
                let gathered = gathering.finish().unwrap();
                prop_assert_eq!(&gathered, &expected);
                prop_assert_eq!(gathered.data_type(), data_type);
            }
        }
    }
}
