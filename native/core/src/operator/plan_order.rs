//! Putting the rows of several chunks into the order of the plan, by the places that they carry.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Fields, Schema};
use std::sync::Arc;

use super::{Origin, Place, RowAt};
use crate::error::{Error, Result};
use crate::gather::{Pick, gather};

/// The most rows of a batch that is returned, so that no column grows beyond what Arrow can address.
const AT_ONCE: usize = 1 << 17;
/// Rows of more blocks are sorted by comparing them.
const MOST_BLOCKS: usize = 1 << 12;
/// Rows are sorted by counting if there are at most so many possible places for each.
const SLOTS_A_ROW: usize = 8;
/// The name of the column that says which row of the chunks a row is.
const FROM: &str = "_at.from";

/// The places of the rows of a chunk: their blocks, and their rows there.
type Places<'a> = (&'a [i64], &'a [i64]);

/// Return the rows of chunks with equal columns, sorted by their last two columns, which are int64. Rows of equal places
/// keep their order. A last column replaces these two: the number of each row among the rows of all chunks. `None` if the
/// rows are in this order already.
pub fn in_plan_order(chunks: &[RecordBatch]) -> Result<Option<Vec<RecordBatch>>> {
    let places = chunks.iter().map(places_in).collect::<Result<Vec<_>>>()?;
    if each(&places).map(|(place, _)| place).is_sorted() {
        return Ok(None);
    }
    let picks = by_counting(&places).unwrap_or_else(|| by_comparing(&places));
    picks.chunks(AT_ONCE).map(|picks| collected(chunks, picks)).collect::<Result<Vec<_>>>().map(Some)
}

fn places_in(chunk: &RecordBatch) -> Result<Places<'_>> {
    let [.., block, row] = chunk.columns() else { return Err(without_places()) };
    match (block.as_primitive_opt::<Int64Type>(), row.as_primitive_opt::<Int64Type>()) {
        (Some(blocks), Some(rows)) => Ok((blocks.values(), rows.values())),
        _ => Err(without_places()),
    }
}

/// The place and the position of each row.
fn each<'a>(places: &'a [Places<'_>]) -> impl Iterator<Item = ((i64, i64), Pick)> + 'a {
    (0u32..).zip(places).flat_map(|(source, (blocks, rows))| {
        let places = blocks.iter().copied().zip(rows.iter().copied());
        places.zip(0u32..).map(move |(place, row)| (place, Pick { source, row }))
    })
}

fn by_comparing(places: &[Places<'_>]) -> Vec<Pick> {
    let mut found: Vec<_> = each(places).collect();
    found.sort_by_key(|one| one.0); // stable
    found.into_iter().map(|one| one.1).collect()
}

/// The rows of a block.
struct Span {
    block: i64,
    least: i64,
    most: i64,
    /// How many slots there are for the blocks before.
    start: usize,
}

/// Sort by counting, which takes a time for each row that does not depend on their number. `None` if the rows of the
/// blocks are too far apart for that.
fn by_counting(places: &[Places<'_>]) -> Option<Vec<Pick>> {
    let count = places.iter().map(|(blocks, _)| blocks.len()).sum::<usize>();
    let mut spans = spans(places)?;
    let mut slots = 0usize;
    for span in &mut spans {
        span.start = slots;
        slots = slots.checked_add(usize::try_from(span.most.checked_sub(span.least)?).ok()?.checked_add(1)?)?;
    }
    if slots > count.saturating_mul(SLOTS_A_ROW) {
        return None;
    }
    let mut span = &spans[0];
    let mut slot = |(block, row): (i64, i64)| -> usize {
        if span.block != block {
            span = &spans[spans.partition_point(|one| one.block < block)];
        }
        span.start + (row - span.least) as usize
    };
    let mut next = vec![0u32; slots];
    each(places).for_each(|(place, _)| next[slot(place)] += 1);
    let mut total = 0;
    for count in &mut next {
        total += std::mem::replace(count, total);
    }
    let mut picks = vec![Pick::NOWHERE; count];
    each(places).for_each(|(place, pick)| {
        let at = &mut next[slot(place)];
        picks[*at as usize] = pick;
        *at += 1;
    });
    Some(picks)
}

/// Return the blocks of some rows, sorted. `None` if there are none or too many.
fn spans(places: &[Places<'_>]) -> Option<Vec<Span>> {
    let (mut spans, mut at): (Vec<Span>, usize) = (Vec::new(), 0);
    for ((block, row), _) in each(places) {
        if spans.get(at).is_none_or(|span| span.block != block) {
            at = match spans.binary_search_by_key(&block, |span| span.block) {
                Ok(at) => at,
                Err(_) if spans.len() == MOST_BLOCKS => return None,
                Err(at) => {
                    spans.insert(at, Span { block, least: row, most: row, start: 0 });
                    at
                }
            };
        }
        let span = &mut spans[at];
        (span.least, span.most) = (span.least.min(row), span.most.max(row));
    }
    (!spans.is_empty()).then_some(spans)
}

fn collected(chunks: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch> {
    let fields = chunks[0].schema_ref().fields();
    let mut fields: Vec<_> = fields[..fields.len() - 2].to_vec();
    let column = |(number, field): (usize, &Arc<Field>)| {
        let sources: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.column(number).as_ref()).collect();
        gather(field.data_type(), &sources, picks)
    };
    let mut columns = fields.iter().enumerate().map(column).collect::<Result<Vec<ArrayRef>>>()?;
    let mut starts = vec![0u32];
    starts.extend(chunks.iter().scan(0, |rows, chunk| {
        *rows += chunk.num_rows() as u32;
        Some(*rows)
    }));
    let from: Vec<u32> = picks.iter().map(|pick| starts[pick.source()] + pick.row).collect();
    columns.push(Arc::new(UInt32Array::from(from)));
    fields.push(Arc::new(Field::new(FROM, DataType::UInt32, false)));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(Fields::from(fields))), columns)?)
}

/// Return the places of `count` emitted rows: that of the row of the pass that each was emitted for. `given` has the
/// places of the chunks of the pass. Rows that were due come after all these, by time, and rows that were emitted for
/// keys between the two.
pub fn places_of(
    emitted: &Origin,
    count: usize,
    given: &[(Int64Array, Int64Array)],
) -> Result<(Int64Array, Int64Array)> {
    let given: Vec<Places<'_>> =
        given.iter().map(|(blocks, rows)| (&blocks.values()[..], &rows.values()[..])).collect();
    let (mut blocks, mut rows) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut add = |(block, row)| {
        blocks.push(block);
        rows.push(row);
    };
    let of_place = |place: &Place| match place {
        Place::Row(at) => place_at(&given, *at),
        Place::Due(time_ms) => Ok((AFTER_ALL, *time_ms)),
        Place::Key => Ok((AFTER_ALL, i64::MIN)),
    };
    match emitted {
        Origin::Rows(at) => at.iter().try_for_each(|at| place_at(&given, *at).map(&mut add))?,
        Origin::Due(times_ms) => times_ms.iter().for_each(|time_ms| add((AFTER_ALL, *time_ms))),
        Origin::Keys => (0..count).for_each(|_| add((AFTER_ALL, i64::MIN))),
        Origin::Each(places) => places.iter().try_for_each(|place| of_place(place).map(&mut add))?,
    }
    Ok((blocks.into(), rows.into()))
}

fn place_at(given: &[Places<'_>], at: RowAt) -> Result<(i64, i64)> {
    let found = given.get(at.chunk as usize).and_then(|(blocks, rows)| {
        let row = at.row as usize;
        Some((*blocks.get(row)?, *rows.get(row)?))
    });
    found.ok_or_else(without_places)
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
        let from: Vec<u32> = found[0].column(1).as_primitive::<arrow_array::types::UInt32Type>().values().to_vec();
        assert_eq!(from, [1, 3, 0, 4, 2]);
        assert_eq!(found[0].num_columns(), 2, "the places are not collected");
    }

    proptest! {
        #[test]
        fn counting_and_comparing_give_the_same_order(
            rows in proptest::collection::vec((0i64..4, -3i64..40, any::<bool>()), 0..200),
            cut in any::<prop::sample::Index>(),
        ) {
            let far = |row: i64, is_far: bool| if is_far { row * 1_000_000_007 } else { row };
            for with_far in [false, true] {
                let (blocks, numbers): (Vec<i64>, Vec<i64>) = rows.iter()
                    .map(|&(block, row, is_far)| (block, far(row, is_far && with_far)))
                    .unzip();
                let cut = cut.index(rows.len() + 1);
                let places = [(&blocks[..cut], &numbers[..cut]), (&blocks[cut..], &numbers[cut..])];
                if let Some(counted) = by_counting(&places) {
                    prop_assert_eq!(counted, by_comparing(&places));
                } else {
                    prop_assert!(with_far || rows.len() < 22, "places close to each other are counted");
                }
            }
        }
    }

    #[test]
    fn emitted_rows_have_the_places_of_their_rows() {
        let given = [(Int64Array::from(vec![5, 6]), Int64Array::from(vec![50, 60]))];
        let at = |row| RowAt { chunk: 0, row };
        let all = [Place::Row(at(1)), Place::Due(7), Place::Key, Place::Row(at(0))];
        let (blocks, rows) = places_of(&Origin::Each(all.to_vec()), 4, &given).unwrap();
        assert_eq!(blocks.values(), &[6, i64::MAX, i64::MAX, 5]);
        assert_eq!(rows.values(), &[60, 7, i64::MIN, 50]);
        let same = [Origin::Rows(vec![at(1), at(0)]), Origin::Due(vec![3, 2]), Origin::Keys];
        let each = [[Place::Row(at(1)), Place::Row(at(0))], [Place::Due(3), Place::Due(2)], [Place::Key, Place::Key]];
        for (origin, each) in same.iter().zip(each) {
            let each = Origin::Each(each.to_vec());
            assert_eq!(places_of(origin, 2, &given).unwrap(), places_of(&each, 2, &given).unwrap());
        }
        assert!(places_of(&Origin::Rows(vec![at(2)]), 1, &given).is_err());
        assert!(places_of(&Origin::Rows(vec![at(0)]), 1, &[]).is_err());
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
