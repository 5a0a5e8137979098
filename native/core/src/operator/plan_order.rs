//! Putting the rows of several chunks into the order of the plan, by the places that they carry.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Fields, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Place;
use crate::error::{Error, Result};
use crate::gather::{Pick, gather};

/// The most rows of a batch that is returned, so that no column grows beyond what Arrow can address.
const AT_ONCE: usize = 1 << 17;
/// Rows of more blocks are sorted by comparing them.
const MOST_BLOCKS: usize = 1 << 12;
/// Rows are sorted by counting if there are at most so many possible places for each.
const SLOTS_A_ROW: usize = 8;
/// The name of the column that says which chunk a row came from.
const CHUNK: &str = "_at.chunk";

/// The place of a row, its chunk, and its number there.
type At = ((i64, i64), Pick);

/// Return the rows of chunks with equal columns, sorted by their last two columns, which are int64. Rows of equal places
/// keep their order. A last column is added: the chunk of each row. `None` if the rows are in this order already.
pub fn in_plan_order(chunks: &[RecordBatch]) -> Result<Option<Vec<RecordBatch>>> {
    let mut placed: Vec<At> = Vec::with_capacity(chunks.iter().map(RecordBatch::num_rows).sum());
    for (source, chunk) in chunks.iter().enumerate() {
        let [.., block, row] = chunk.columns() else { return Err(without_places()) };
        let (Some(blocks), Some(rows)) = (block.as_primitive_opt::<Int64Type>(), row.as_primitive_opt::<Int64Type>())
        else {
            return Err(without_places());
        };
        let places = blocks.values().iter().copied().zip(rows.values().iter().copied());
        placed.extend(places.enumerate().map(|(row, place)| (place, Pick::new(source, row))));
    }
    if placed.is_sorted_by_key(|one| one.0) {
        return Ok(None);
    }
    let picks = match by_counting(&placed) {
        Some(picks) => picks,
        None => {
            placed.sort_by_key(|one| one.0); // stable
            placed.into_iter().map(|one| one.1).collect()
        }
    };
    picks.chunks(AT_ONCE).map(|picks| collected(chunks, picks)).collect::<Result<Vec<_>>>().map(Some)
}

/// Sort by counting, which takes a time for each row that does not depend on their number. `None` if the rows of the
/// blocks are too far apart for that.
fn by_counting(placed: &[At]) -> Option<Vec<Pick>> {
    let mut spans: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for run in placed.chunk_by(|a, b| a.0.0 == b.0.0) {
        let span = spans.entry(run[0].0.0).or_insert((i64::MAX, i64::MIN));
        *span = run.iter().fold(*span, |(least, most), &((_, row), _)| (least.min(row), most.max(row)));
    }
    if spans.len() > MOST_BLOCKS {
        return None;
    }
    let mut slots = 0usize;
    let mut starts = Vec::with_capacity(spans.len());
    for (&block, &(least, most)) in &spans {
        starts.push((block, least, slots));
        slots = slots.checked_add(usize::try_from(most.checked_sub(least)?).ok()?.checked_add(1)?)?;
    }
    if slots > placed.len().saturating_mul(SLOTS_A_ROW) {
        return None;
    }
    let mut last = 0;
    let mut slot = |place: (i64, i64)| -> usize {
        if starts[last].0 != place.0 {
            last = starts.partition_point(|one| one.0 < place.0);
        }
        let (_, least, start) = starts[last];
        start + (place.1 - least) as usize
    };
    let mut next = vec![0u32; slots];
    placed.iter().for_each(|one| next[slot(one.0)] += 1);
    let mut total = 0;
    for count in &mut next {
        total += std::mem::replace(count, total);
    }
    let mut picks = vec![Pick::NOWHERE; placed.len()];
    for &(place, pick) in placed {
        let at = &mut next[slot(place)];
        picks[*at as usize] = pick;
        *at += 1;
    }
    Some(picks)
}

fn collected(chunks: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch> {
    let mut fields: Vec<_> = chunks[0].schema_ref().fields().iter().cloned().collect();
    let column = |(number, field): (usize, &Arc<Field>)| {
        let sources: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.column(number).as_ref()).collect();
        gather(field.data_type(), &sources, picks)
    };
    let mut columns = fields.iter().enumerate().map(column).collect::<Result<Vec<ArrayRef>>>()?;
    columns.push(Arc::new(picks.iter().map(|pick| Some(pick.source)).collect::<UInt32Array>()));
    fields.push(Arc::new(Field::new(CHUNK, DataType::UInt32, false)));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(Fields::from(fields))), columns)?)
}

/// Return the places of emitted rows: that of the row of the pass that each was emitted for. `given` has the places of
/// the chunks of the pass. Rows that were due come after all these, by time, and rows that were emitted for keys between
/// the two.
pub fn places_of(emitted: &[Place], given: &[(Int64Array, Int64Array)]) -> Result<(Int64Array, Int64Array)> {
    let mut found = (Vec::with_capacity(emitted.len()), Vec::with_capacity(emitted.len()));
    for place in emitted {
        let (block, row) = match place {
            Place::Row(at) => {
                let at = (at.chunk as usize, at.row as usize);
                let chunk = given.get(at.0).filter(|(blocks, rows)| at.1 < blocks.len().min(rows.len()));
                let (blocks, rows) = chunk.ok_or_else(without_places)?;
                (blocks.value(at.1), rows.value(at.1))
            }
            Place::Due(time_ms) => (AFTER_ALL, *time_ms),
            Place::Key => (AFTER_ALL, i64::MIN),
        };
        found.0.push(block);
        found.1.push(row);
    }
    Ok((found.0.into(), found.1.into()))
}

/// The block of rows that come after those of all blocks.
const AFTER_ALL: i64 = i64::MAX;

fn without_places() -> Error {
    Error::InternalError("rows to put into the order of the plan carry no places".into())
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use proptest::prelude::*;

    use super::*;

    fn chunk(rows: &[(&str, i64, i64)]) -> RecordBatch {
        let texts: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>());
        let blocks: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
        let numbers: ArrayRef = Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>());
        let fields = [("text", DataType::Utf8), ("block", DataType::Int64), ("row", DataType::Int64)];
        let schema = Schema::new(fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec());
        RecordBatch::try_new(Arc::new(schema), vec![texts, blocks, numbers]).unwrap()
    }

    #[test]
    fn rows_are_sorted_by_their_places_and_equal_places_keep_their_order() {
        let chunks = [chunk(&[("c", 1, 7), ("a", 0, 3), ("f", i64::MAX, 1)]), chunk(&[("b", 1, 2), ("d", 1, 7)])];
        let found = in_plan_order(&chunks).unwrap().unwrap();
        assert_eq!(found.len(), 1);
        let texts: Vec<&str> = found[0].column(0).as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["a", "b", "c", "d", "f"]);
        let from: Vec<u32> = found[0].column(3).as_primitive::<arrow_array::types::UInt32Type>().values().to_vec();
        assert_eq!(from, [0, 1, 0, 1, 0]);
    }

    proptest! {
        #[test]
        fn counting_and_comparing_give_the_same_order(
            rows in proptest::collection::vec((0i64..4, -3i64..40, any::<bool>()), 0..200),
        ) {
            let far = |row: i64, is_far: bool| if is_far { row * 1_000_000_007 } else { row };
            for with_far in [false, true] {
                let placed: Vec<At> = (0usize..).zip(&rows)
                    .map(|(number, &(block, row, is_far))| ((block, far(row, is_far && with_far)), Pick::new(0, number)))
                    .collect();
                let mut sorted = placed.clone();
                sorted.sort_by_key(|one| one.0);
                let sorted: Vec<Pick> = sorted.into_iter().map(|one| one.1).collect();
                if let Some(counted) = by_counting(&placed) {
                    prop_assert_eq!(counted, sorted);
                } else {
                    prop_assert!(with_far || rows.len() < 22, "places close to each other are counted");
                }
            }
        }
    }

    #[test]
    fn emitted_rows_have_the_places_of_their_rows() {
        let given = [(Int64Array::from(vec![5, 6]), Int64Array::from(vec![50, 60]))];
        let at = |row| Place::Row(crate::operator::RowAt { chunk: 0, row });
        let (blocks, rows) = places_of(&[at(1), Place::Due(7), Place::Key, at(0)], &given).unwrap();
        assert_eq!(blocks.values(), &[6, i64::MAX, i64::MAX, 5]);
        assert_eq!(rows.values(), &[60, 7, i64::MIN, 50]);
        assert!(places_of(&[at(2)], &given).is_err());
        assert!(places_of(&[at(0)], &[]).is_err());
    }

    #[test]
    fn rows_in_order_are_left_alone() {
        let chunks = [chunk(&[("a", 0, 3), ("b", 0, 3)]), chunk(&[]), chunk(&[("c", 1, 0)])];
        assert!(in_plan_order(&chunks).unwrap().is_none());
    }

    #[test]
    fn rows_without_places_are_refused() {
        let texts = RecordBatch::try_from_iter([("t", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]).unwrap();
        assert!(in_plan_order(&[texts]).is_err());
    }
}
