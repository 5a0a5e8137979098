//! A walk over the fields of Parquet's metadata (Thrift, compact protocol) that allocates nothing for claimed lengths.

/// How deep structs and lists may be nested. Parquet's own metadata has five levels.
const DEPTH: usize = 16;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
/// Thrift's code of integers of 32 bits.
pub const I32: u8 = 5;
const LIST: u8 = 9;
/// Thrift's code of structs.
pub const STRUCT: u8 = 12;

/// A field of a struct, or of a struct nested directly in it or in a list in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThriftField {
    /// Its number; fields of the struct in field `n` have `n` times 100 added, and `n` times 100
    /// itself is the beginning of a struct in a list.
    pub path: usize,
    /// Thrift's code of its type.
    pub kind: u8,
    /// The value of an integer or boolean; 0 for any other type.
    pub number: i64,
}

impl ThriftField {
    /// Whether it is a boolean. Thrift stores the value of a boolean in the type code.
    pub fn is_boolean(&self) -> bool {
        matches!(self.kind, TRUE | FALSE)
    }
}

/// The bytes that have not been read yet.
pub struct Thrift<'a>(pub &'a [u8]);

impl Thrift<'_> {
    /// Read one struct, and call `visit` with its fields and those of structs nested directly in it or in a list. `None` if the
    /// bytes are not a valid struct, or claim to hold more than there are bytes.
    pub fn fields(&mut self, visit: &mut dyn FnMut(ThriftField)) -> Option<()> {
        self.fields_within(Some(0), DEPTH, visit)
    }

    /// `outer` is the prefix of paths; `None` if the fields are nested too deep to be visited.
    fn fields_within(&mut self, outer: Option<usize>, depth: usize, visit: &mut dyn FnMut(ThriftField)) -> Option<()> {
        let (depth, mut id) = (depth.checked_sub(1)?, 0i16); // Parquet's reader has 16-bit field numbers, too
        loop {
            let head = self.byte()?;
            let (step, kind) = (head >> 4, head & 0x0f);
            if kind == 0 {
                return Some(());
            }
            id = if step == 0 { i16::try_from(self.zigzag()?).ok()? } else { id.checked_add(i16::from(step))? };
            let inner = usize::try_from(id).ok().filter(|id| (1..100).contains(id));
            let path = outer.zip(inner).map(|(outer, inner)| outer + inner);
            let deeper = path.filter(|_| outer == Some(0)).map(|path| path * 100);
            let number = match kind {
                TRUE | FALSE => i64::from(kind == TRUE),
                STRUCT => {
                    self.fields_within(deeper, depth, visit)?;
                    0
                }
                LIST if deeper.is_some() => {
                    self.list_within(deeper, depth, visit)?;
                    0
                }
                _ => self.value(kind, depth)?,
            };
            if let Some(path) = path {
                visit(ThriftField { path, kind, number });
            }
        }
    }

    /// Read a list. Each struct in it is visited: first its prefix as a path, then its fields.
    fn list_within(&mut self, outer: Option<usize>, depth: usize, visit: &mut dyn FnMut(ThriftField)) -> Option<()> {
        let (kind, length) = self.list()?;
        let depth = depth.checked_sub(1)?;
        if kind != STRUCT {
            return self.values(&[kind], length, depth);
        }
        for _ in 0..length {
            if let Some(path) = outer {
                visit(ThriftField { path, kind, number: 0 });
            }
            self.fields_within(outer, depth, visit)?;
        }
        Some(())
    }

    /// Read the kind of the values of a list, and how many it claims to have.
    fn list(&mut self) -> Option<(u8, u64)> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((head & 0x0f, length))
    }

    /// Read a value of `kind` other than a boolean field.
    fn value(&mut self, kind: u8, depth: usize) -> Option<i64> {
        match kind {
            3 => self.skip(1)?,
            4..=6 => return self.zigzag(),
            7 => self.skip(8)?,
            8 => {
                let length = self.varint()?;
                self.skip(length)?;
            }
            LIST | 10 => {
                let (kind, length) = self.list()?;
                self.values(&[kind], length, depth.checked_sub(1)?)?;
            }
            11 => {
                let length = self.varint()?;
                if length > 0 {
                    let kinds = self.byte()?;
                    self.values(&[kinds >> 4, kinds & 0x0f], length, depth.checked_sub(1)?)?;
                }
            }
            STRUCT => self.fields_within(None, depth, &mut |_| {})?,
            13 => self.skip(16)?,
            _ => return None,
        }
        Some(0)
    }

    /// Read `length` values of each of `kinds`; each takes at least one byte. INVARIANT: lists and maps of booleans are
    /// refused, because Parquet's reader skips them as if they took no bytes. A segment has none.
    fn values(&mut self, kinds: &[u8], length: u64, depth: usize) -> Option<()> {
        if length > self.0.len() as u64 || kinds.iter().any(|kind| matches!(*kind, TRUE | FALSE)) {
            return None;
        }
        for _ in 0..length {
            for &kind in kinds {
                self.value(kind, depth)?;
            }
        }
        Some(())
    }

    fn zigzag(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{I32, STRUCT, Thrift, ThriftField};

    fn fields(bytes: &[u8]) -> Option<Vec<ThriftField>> {
        let mut found = Vec::new();
        Thrift(bytes).fields(&mut |field| found.push(field)).map(|()| found)
    }

    #[test]
    fn fields_are_visited_to_the_second_level() {
        // 2: i32 -3; 5: struct { 1: i32 64; 3: true; 4: struct { 1: i32 1 } }; 6: list of two i32; 20: binary of one
        // byte
        let bytes = [
            0x25, 0x05, 0x3c, 0x15, 0x80, 0x01, 0x21, 0x1c, 0x15, 0x02, 0x00, 0x00, 0x19, 0x25, 0x02, 0x04, 0x08, 0x28,
            0x01, 0x07, 0x00,
        ];
        let found: Vec<(usize, u8, i64)> =
            fields(&bytes).unwrap().iter().map(|one| (one.path, one.kind, one.number)).collect();
        assert_eq!(
            found,
            [(2, I32, -3), (501, I32, 64), (503, 1, 1), (504, STRUCT, 0), (5, STRUCT, 0), (6, 9, 0), (20, 8, 0)]
        );
    }

    #[test]
    fn bytes_that_claim_more_than_they_hold_are_refused() {
        for claim in [
            &[][..],
            &[0x15, 0x02],                         // a field, and no end
            &[0x18, 0x7f, 0x00],                   // a text of 127 bytes
            &[0x19, 0xfc, 0xff, 0xff, 0x03, 0x00], // a list of 65,535 structs
            &[0x1b, 0xff, 0x7f, 0x55, 0x00],       // a map of 16,383 numbers
            &[0x1e, 0x00],                         // no kind
            &[0x19, 0x11, 0x01, 0x00],             // a list of one boolean
            &[0x1b, 0x01, 0x15, 0x01, 0x02, 0x00], // a map from a boolean to a number
            &[0x05, 0x84, 0x80, 0x08, 0x02, 0x00], // field 65,538
            &[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00],
            &[0x1c; 100], // structs in structs
            &[0x19; 100], // lists in lists
        ] {
            assert_eq!(fields(claim), None, "{claim:?}");
        }
    }
}
