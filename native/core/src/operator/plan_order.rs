//! Putting the rows of several chunks into the order of the plan, by their places.

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

/// The blocks of the rows of a chunk.
#[derive(Clone, Debug)]
pub enum Blocks {
    /// All rows are of one block.
    One(i64),
    /// The block of each row.
    Each(Int64Array),
}

/// The places of the rows of a chunk.
#[derive(Clone, Debug)]
pub struct Places {
    blocks: Blocks,
    rows: Int64Array,
}

impl Places {
    /// Each row has a block, and a number there. `InternalError` if there are not as many blocks as numbers.
    pub fn new(blocks: Blocks, rows: Int64Array) -> Result<Self> {
        match &blocks {
            Blocks::Each(blocks) if blocks.len() != rows.len() => Err(without_places()),
            _ => Ok(Self { blocks, rows }),
        }
    }

    fn block(&self, row: usize) -> i64 {
        match &self.blocks {
            Blocks::One(block) => *block,
            Blocks::Each(blocks) => blocks.value(row),
        }
    }

    /// The end of the rows from `start` on that are of one block.
    fn end_of_run(&self, start: usize) -> usize {
        match &self.blocks {
            Blocks::One(_) => self.rows.len(),
            Blocks::Each(blocks) => {
                let values = &blocks.values()[start..];
                start + values.iter().take_while(|block| **block == values[0]).count()
            }
        }
    }
}

/// Rows of one chunk and one block that follow each other.
struct Run<'a> {
    block: i64,
    rows: &'a [i64],
    /// The chunk, and the first of the rows there.
    source: usize,
    start: usize,
}

impl Run<'_> {
    fn picks(&self) -> impl Iterator<Item = (i64, Pick)> {
        self.rows.iter().zip(self.start..).map(|(&row, at)| (row, Pick::new(self.source, at)))
    }
}

fn runs(places: &[Places]) -> impl Iterator<Item = Run<'_>> {
    places.iter().enumerate().flat_map(|(source, places)| {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = next;
            if start == places.rows.len() {
                return None;
            }
            next = places.end_of_run(start);
            Some(Run { block: places.block(start), rows: &places.rows.values()[start..next], source, start })
        })
    })
}

/// Return the rows of chunks with equal columns, sorted by their places. Rows of equal places keep their order. A column
/// is added: the number of each row among the rows of all chunks. `None` if the rows are in this order already.
pub fn in_plan_order(chunks: &[RecordBatch], places: &[Places]) -> Result<Option<Vec<RecordBatch>>> {
    if !chunks.iter().map(RecordBatch::num_rows).eq(places.iter().map(|places| places.rows.len())) {
        return Err(without_places());
    }
    if are_in_order(places) {
        return Ok(None);
    }
    let picks = by_counting(places).unwrap_or_else(|| by_comparing(places));
    picks.chunks(AT_ONCE).map(|picks| collected(chunks, picks)).collect::<Result<Vec<_>>>().map(Some)
}

fn are_in_order(places: &[Places]) -> bool {
    let mut before = (i64::MIN, i64::MIN);
    runs(places).all(|run| {
        let first = std::mem::replace(&mut before, (run.block, run.rows[run.rows.len() - 1]));
        first <= (run.block, run.rows[0]) && run.rows.is_sorted()
    })
}

fn by_comparing(places: &[Places]) -> Vec<Pick> {
    let mut found: Vec<((i64, i64), Pick)> = Vec::new();
    for run in runs(places) {
        found.extend(run.picks().map(|(row, pick)| ((run.block, row), pick)));
    }
    found.sort_by_key(|one| one.0); // stable
    found.into_iter().map(|one| one.1).collect()
}

/// Sort by counting, which takes a time for each row that does not depend on their number. `None` if the rows of the
/// blocks are too far apart for that.
fn by_counting(places: &[Places]) -> Option<Vec<Pick>> {
    let spans = Spans::of(places)?;
    let mut next = vec![0u32; spans.slots];
    for run in runs(places) {
        let (least, slots) = spans.find(run.block);
        run.rows.iter().for_each(|row| next[slots + (row - least) as usize] += 1);
    }
    let mut total = 0;
    for count in &mut next {
        total += std::mem::replace(count, total);
    }
    let mut picks = vec![Pick::NOWHERE; total as usize];
    for run in runs(places) {
        let (least, slots) = spans.find(run.block);
        for (row, pick) in run.picks() {
            let at = &mut next[slots + (row - least) as usize];
            picks[*at as usize] = pick;
            *at += 1;
        }
    }
    Some(picks)
}

/// The blocks of some rows, sorted, with their first slots. A block has a slot for each place from its least row to its
/// last.
struct Spans {
    spans: Vec<Span>,
    slots: usize,
}

struct Span {
    block: i64,
    least: i64,
    most: i64,
    start: usize,
}

impl Spans {
    /// `None` if there are too many blocks, or too many slots.
    fn of(places: &[Places]) -> Option<Self> {
        let mut spans: Vec<Span> = Vec::new();
        for Run { block, rows, .. } in runs(places) {
            let (least, most) = rows.iter().fold((i64::MAX, i64::MIN), |(a, b), &row| (a.min(row), b.max(row)));
            match spans.binary_search_by_key(&block, |span| span.block) {
                Ok(at) => {
                    let span = &mut spans[at];
                    (span.least, span.most) = (span.least.min(least), span.most.max(most));
                }
                Err(_) if spans.len() == MOST_BLOCKS => return None,
                Err(at) => spans.insert(at, Span { block, least, most, start: 0 }),
            }
        }
        let mut slots = 0usize;
        for span in &mut spans {
            span.start = slots;
            slots = slots.checked_add(usize::try_from(span.most.checked_sub(span.least)?).ok()?.checked_add(1)?)?;
        }
        let rows = places.iter().map(|places| places.rows.len()).sum::<usize>();
        (slots <= rows.saturating_mul(SLOTS_A_ROW)).then_some(Self { spans, slots })
    }

    /// Return the least row of a block, and its slot.
    fn find(&self, block: i64) -> (i64, usize) {
        let span = &self.spans[self.spans.partition_point(|span| span.block < block)];
        (span.least, span.start)
    }
}

fn collected(chunks: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch> {
    let mut fields = chunks[0].schema_ref().fields().to_vec();
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
pub fn places_of(emitted: &Origin, count: usize, given: &[Places]) -> Result<(Int64Array, Int64Array)> {
    let (mut blocks, mut rows) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut add = |(block, row)| {
        blocks.push(block);
        rows.push(row);
    };
    let of_place = |place: &Place| match place {
        Place::Row(at) => place_at(given, *at),
        Place::Due(time_ms) => Ok((AFTER_ALL, *time_ms)),
        Place::Key => Ok((AFTER_ALL, i64::MIN)),
    };
    match emitted {
        Origin::Rows(at) => at.iter().try_for_each(|at| place_at(given, *at).map(&mut add))?,
        Origin::Due(times_ms) => times_ms.iter().for_each(|time_ms| add((AFTER_ALL, *time_ms))),
        Origin::Keys => (0..count).for_each(|_| add((AFTER_ALL, i64::MIN))),
        Origin::Each(places) => places.iter().try_for_each(|place| of_place(place).map(&mut add))?,
    }
    Ok((blocks.into(), rows.into()))
}

fn place_at(given: &[Places], at: RowAt) -> Result<(i64, i64)> {
    let (chunk, row) = (at.chunk as usize, at.row as usize);
    let places = given.get(chunk).filter(|places| row < places.rows.len()).ok_or_else(without_places)?;
    Ok((places.block(row), places.rows.value(row)))
}

/// The block of rows that come after those of all blocks.
const AFTER_ALL: i64 = i64::MAX;

fn without_places() -> Error {
    Error::InternalError("rows to put into the order of the plan carry no places".into())
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt32Type;
    use proptest::prelude::*;

    use super::*;

    fn chunk(rows: &[(&str, i64, i64)]) -> (RecordBatch, Places) {
        let texts: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>());
        let places = places(rows.iter().map(|row| row.1).collect(), rows.iter().map(|row| row.2).collect());
        (RecordBatch::try_from_iter([("text", texts)]).unwrap(), places)
    }

    fn places(blocks: Vec<i64>, rows: Vec<i64>) -> Places {
        Places::new(Blocks::Each(blocks.into()), rows.into()).unwrap()
    }

    fn sorted(chunks: Vec<(RecordBatch, Places)>) -> Option<Vec<RecordBatch>> {
        let (chunks, places): (Vec<_>, Vec<_>) = chunks.into_iter().unzip();
        in_plan_order(&chunks, &places).unwrap()
    }

    #[test]
    fn rows_are_sorted_by_their_places_and_equal_places_keep_their_order() {
        let mut chunks =
            vec![chunk(&[("c", 1, 7), ("a", 0, 3), ("f", i64::MAX, 1)]), chunk(&[("b", 1, 2), ("d", 1, 7)])];
        for in_one_block in [false, true] {
            if in_one_block {
                chunks[1].1.blocks = Blocks::One(1);
            }
            let found = sorted(chunks.clone()).unwrap();
            assert_eq!(found.len(), 1);
            let texts: Vec<&str> = found[0].column(0).as_string::<i32>().iter().flatten().collect();
            assert_eq!(texts, ["a", "b", "c", "d", "f"]);
            let from: Vec<u32> = found[0].column(1).as_primitive::<UInt32Type>().values().to_vec();
            assert_eq!(from, [1, 3, 0, 4, 2]);
        }
    }

    proptest! {
        #[test]
        fn counting_and_comparing_give_the_same_order(
            rows in prop::collection::vec((0i64..4, -3i64..40, any::<bool>()), 0..200),
            of_one_block in prop::collection::vec(-3i64..40, 0..9),
            cut in any::<prop::sample::Index>(),
        ) {
            let far = |row: i64, is_far: bool| if is_far { row * 1_000_000_007 } else { row };
            for with_far in [false, true] {
                let (blocks, numbers): (Vec<i64>, Vec<i64>) =
                    rows.iter().map(|&(block, row, is_far)| (block, far(row, is_far && with_far))).unzip();
                let cut = cut.index(rows.len() + 1);
                let places = [
                    places(blocks[..cut].to_vec(), numbers[..cut].to_vec()),
                    Places::new(Blocks::One(2), of_one_block.clone().into()).unwrap(),
                    places(blocks[cut..].to_vec(), numbers[cut..].to_vec()),
                ];
                let compared = by_comparing(&places);
                prop_assert_eq!(are_in_order(&places), compared.is_sorted_by_key(|pick| (pick.source, pick.row)));
                if let Some(counted) = by_counting(&places) {
                    prop_assert_eq!(counted, compared);
                } else {
                    prop_assert!(with_far || rows.len() < 22, "places close to each other are counted");
                }
            }
        }
    }

    #[test]
    fn emitted_rows_have_the_places_of_their_rows() {
        let given = [places(vec![5, 6], vec![50, 60]), Places::new(Blocks::One(8), vec![80].into()).unwrap()];
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
        let (blocks, rows) = places_of(&Origin::Rows(vec![RowAt { chunk: 1, row: 0 }]), 1, &given).unwrap();
        assert_eq!((blocks.value(0), rows.value(0)), (8, 80));
        assert!(places_of(&Origin::Rows(vec![at(2)]), 1, &given).is_err());
        assert!(places_of(&Origin::Rows(vec![at(0)]), 1, &[]).is_err());
    }

    #[test]
    fn rows_in_order_are_left_alone() {
        let chunks = vec![chunk(&[("a", 0, 3), ("b", 0, 3)]), chunk(&[]), chunk(&[("c", 1, 0)])];
        assert!(sorted(chunks).is_none());
    }

    #[test]
    fn rows_without_places_are_refused() {
        let (texts, places) = chunk(&[("a", 0, 0), ("b", 0, 1)]);
        assert!(in_plan_order(&[texts.slice(0, 1)], &[places]).is_err());
        assert!(in_plan_order(&[texts], &[]).is_err());
        assert!(Places::new(Blocks::Each(vec![1, 2].into()), vec![1].into()).is_err());
    }
}
