//! Merging spans of time of one key that touch: the merged spans, and the merged span of each piece.

/// A span of time of a key, which is given by its number. The start is included, the end is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) group: u32,
    pub(super) start_us: i64,
    pub(super) end_us: i64,
}

/// Sessions: pieces merged where they overlap, or where one ends at the start of the next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Touching {
    /// Sorted by group, then start.
    pub(super) sessions: Vec<Piece>,
    /// The session of each piece; `None` if that session was left out.
    pub(super) of: Vec<Option<u32>>,
}

impl Touching {
    /// Merge `pieces`, whose groups are below `groups`, into sessions.
    pub(super) fn new(groups: usize, pieces: &[Piece]) -> Self {
        let (mut order, ends) = by_group(groups, pieces);
        let (mut sessions, mut of) = (Vec::new(), vec![None; pieces.len()]);
        let mut start = 0;
        for end in ends {
            let rows = &mut order[start..end];
            if !rows.is_sorted() {
                rows.sort_unstable();
            }
            merge(rows, &mut sessions, &mut of);
            start = end;
        }
        Self { sessions, of }
    }

    /// Keep only sessions that contain a piece from `first` on. Sessions of a group are sorted by `order` of their
    /// starts.
    pub(super) fn touched_from<T: Ord>(mut self, first: usize, order: impl Fn(i64) -> T) -> Self {
        let mut is_touched = vec![false; self.sessions.len()];
        for &session in self.of[first..].iter().flatten() {
            is_touched[session as usize] = true;
        }
        let mut left: Vec<u32> =
            (0u32..).zip(&is_touched).filter(|&(_, &touched)| touched).map(|(old, _)| old).collect();
        let session = |old: &u32| self.sessions[*old as usize];
        for group in left.chunk_by_mut(|a, b| session(a).group == session(b).group) {
            group.sort_unstable_by_key(|old| order(session(old).start_us));
        }
        let mut numbers = vec![None; self.sessions.len()];
        for (number, &old) in (0u32..).zip(&left) {
            numbers[old as usize] = Some(number);
        }
        self.sessions = left.iter().map(session).collect();
        for session in &mut self.of {
            *session = session.and_then(|session| numbers[session as usize]);
        }
        self
    }
}

/// A piece of a group, sorted by start, then by number.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered {
    start_us: i64,
    number: u32,
    group: u32,
    end_us: i64,
}

/// Return all pieces by group, in the order given, and the end of each group.
fn by_group(groups: usize, pieces: &[Piece]) -> (Vec<Numbered>, Vec<usize>) {
    let mut ends = vec![0; groups];
    for piece in pieces {
        ends[piece.group as usize] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        (*end, sum) = (sum, sum + *end); // holds the start until the pieces are placed
    }
    let mut order = vec![Numbered::default(); pieces.len()];
    for (number, &Piece { group, start_us, end_us }) in (0u32..).zip(pieces) {
        let slot = &mut ends[group as usize];
        order[*slot] = Numbered { start_us, number, group, end_us };
        *slot += 1;
    }
    (order, ends)
}

/// Merge the pieces of one group, which are sorted by start.
fn merge(rows: &[Numbered], sessions: &mut Vec<Piece>, of: &mut [Option<u32>]) {
    let first = sessions.len();
    for &Numbered { start_us, number, group, end_us } in rows {
        match sessions[first..].last_mut() {
            Some(last) if start_us <= last.end_us => last.end_us = last.end_us.max(end_us),
            _ => sessions.push(Piece { group, start_us, end_us }),
        }
        #[expect(clippy::cast_possible_truncation, reason = "rows of a pass are numbered by u32")]
        let session = (sessions.len() - 1) as u32;
        of[number as usize] = Some(session);
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece, Touching};

    fn pieces(spans: &[(u32, i64, i64)]) -> Vec<Piece> {
        spans.iter().map(|&(group, start_us, end_us)| Piece { group, start_us, end_us }).collect()
    }

    #[test]
    fn spans_that_touch_or_overlap_are_merged() {
        let found =
            Touching::new(2, &pieces(&[(1, 0, 10), (0, 20, 30), (0, 0, 10), (0, 10, 20), (0, 31, 41), (0, 2, 5)]));
        assert_eq!(found.sessions, pieces(&[(0, 0, 30), (0, 31, 41), (1, 0, 10)]));
        assert_eq!(found.of, [Some(2), Some(0), Some(0), Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn a_late_span_bridges_two() {
        let apart = pieces(&[(0, 0, 10), (0, 15, 25)]);
        assert_eq!(Touching::new(1, &apart).sessions, apart);
        let bridged = pieces(&[(0, 0, 10), (0, 15, 25), (0, 8, 18)]);
        assert_eq!(Touching::new(1, &bridged).sessions, pieces(&[(0, 0, 25)]));
    }

    #[test]
    fn sessions_that_no_new_piece_touches_are_left_out() {
        let given = pieces(&[(0, 0, 10), (0, 50, 60), (1, 0, 10), (0, 55, 65), (2, 0, 1)]);
        let found = Touching::new(3, &given).touched_from(3, |start_us| start_us);
        assert_eq!(found.sessions, pieces(&[(0, 50, 65), (2, 0, 1)]));
        assert_eq!(found.of, [None, Some(0), None, Some(0), Some(1)]);
    }

    #[test]
    fn touched_sessions_of_a_group_are_in_the_requested_order() {
        let given = pieces(&[(0, 5, 6), (1, 9, 10), (0, 1, 2), (1, 7, 8), (1, 3, 4), (1, 0, 1)]);
        let found = Touching::new(2, &given).touched_from(1, |start_us| -start_us);
        assert_eq!(found.sessions, pieces(&[(0, 1, 2), (1, 9, 10), (1, 7, 8), (1, 3, 4), (1, 0, 1)]));
        assert_eq!(found.of, [None, Some(1), Some(0), Some(2), Some(3), Some(4)]);
    }
}
