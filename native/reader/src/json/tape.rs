//! The tokens of JSON values, in one flat list: containers first, then what is in them.
//!
//! The grammar is that of Spark's parser: strict JSON, and what options allow beyond it. Values stay where they are in
//! the data, so that numbers keep all their digits. INVARIANT: no recursion, and each byte is looked at once.

/// How deep values may be nested, as in Spark.
pub const MAX_DEPTH: usize = 1000;

/// The options that allow more than strict JSON. The names are those of Spark without `allow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Allow {
    /// `/* … */` and `// …`.
    pub comments: bool,
    /// Names without quotes.
    pub unquoted_names: bool,
    /// Strings and names in single quotes.
    pub single_quotes: bool,
    /// Numbers such as `007`.
    pub leading_zeros: bool,
    /// A backslash before any character.
    pub any_backslash: bool,
    /// Control characters in strings.
    pub unquoted_control: bool,
    /// `NaN`, `Infinity`, `-Infinity`, `INF`, `-INF`, `+INF`.
    pub non_numeric: bool,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    True,
    False,
    Number,
    NotFinite,
    /// A string without escapes.
    Plain,
    /// A string with escapes.
    Escaped,
    Object,
    Array,
}

/// A token. `start..end` is its text: of a string what is between its quotes, of a container all of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) start: u32,
    pub(super) end: u32,
    /// Where the token after this value is in the tape.
    pub(super) next: u32,
}

impl Node {
    /// The text of the token.
    pub(super) fn text(self, data: &[u8]) -> &[u8] {
        &data[self.start as usize..self.end as usize]
    }

    /// The text of the value as it is in the data, with quotes.
    pub(super) fn raw(self, data: &[u8]) -> &[u8] {
        let quotes = u32::from(matches!(self.kind, Kind::Plain | Kind::Escaped));
        &data[(self.start - quotes) as usize..(self.end + quotes) as usize]
    }
}

/// Why a value ends before it is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The data ends within the value.
    Ends,
    /// What stands at a place is no JSON.
    Invalid(usize, &'static str),
}

type Parsed<T> = Result<T, Stop>;

/// For each byte whether it is a character of a string, whatever its quotes are, that needs no look.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        plain[byte] = false;
        byte += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\'' as usize] = false;
    plain[b'\\' as usize] = false;
    plain
};

/// Parses one value.
pub(super) struct Parser<'a> {
    pub(super) data: &'a [u8],
    pub(super) allow: Allow,
    pub(super) max_depth: usize,
}

impl Parser<'_> {
    /// Append the tokens of the value at `start` to `tape` and return where it ends. `is_last`: nothing follows `data`.
    pub(super) fn value(&self, start: usize, is_last: bool, tape: &mut Vec<Node>) -> Parsed<usize> {
        let (mut at, mut open) = (start, Open::default());
        loop {
            at = self.space(at)?;
            let byte = self.byte(at)?;
            if matches!(byte, b'{' | b'[') {
                if open.depth >= self.max_depth {
                    return Err(Stop::Invalid(at, "nested too deeply"));
                }
                open.begin(byte == b'{', at, tape);
                at = self.space(at + 1)?;
                let first = self.byte(at)?;
                if first != open.end() {
                    if open.is_object {
                        at = self.name(at, first, tape)?;
                    }
                    continue;
                }
                at += 1;
                open.close(at, tape);
            } else {
                at = self.scalar(at, byte, is_last, tape)?;
            }
            while open.depth > 0 {
                at = self.space(at)?;
                let byte = self.byte(at)?;
                if byte == b',' {
                    at += 1;
                    if open.is_object {
                        at = self.space(at)?;
                        at = self.name(at, self.byte(at)?, tape)?;
                    }
                    break;
                }
                if byte != open.end() {
                    return Err(Stop::Invalid(at, "expected a comma or the end"));
                }
                at += 1;
                open.close(at, tape);
            }
            if open.depth == 0 {
                return Ok(at);
            }
        }
    }

    #[inline]
    fn byte(&self, at: usize) -> Parsed<u8> {
        self.data.get(at).copied().ok_or(Stop::Ends)
    }

    /// Return the place of the next byte that is no white space and in no comment.
    #[inline]
    pub(super) fn space(&self, start: usize) -> Parsed<usize> {
        match self.data.get(start) {
            Some(byte) if *byte > b' ' && *byte != b'/' => Ok(start),
            _ => self.more_space(start),
        }
    }

    fn more_space(&self, start: usize) -> Parsed<usize> {
        let mut at = start;
        loop {
            match self.data.get(at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => at += 1,
                Some(b'/') if self.allow.comments => at = self.comment(at)?,
                _ => return Ok(at),
            }
        }
    }

    fn comment(&self, at: usize) -> Parsed<usize> {
        let rest = &self.data[at..];
        match rest {
            [_, b'/', ..] => Ok(memchr::memchr2(b'\n', b'\r', rest).map_or(self.data.len(), |end| at + end)),
            [_, b'*', ..] => {
                let mut from = 2;
                while let Some(star) = memchr::memchr(b'*', &rest[from..]) {
                    from += star + 1;
                    if rest.get(from) == Some(&b'/') {
                        return Ok(at + from + 1);
                    }
                }
                Err(Stop::Ends)
            }
            [_] => Err(Stop::Ends),
            _ => Err(Stop::Invalid(at, "expected a value")),
        }
    }

    /// Read a name and the colon behind it.
    fn name(&self, at: usize, byte: u8, tape: &mut Vec<Node>) -> Parsed<usize> {
        let after = match byte {
            b'"' => self.string(at, byte, tape)?,
            b'\'' if self.allow.single_quotes => self.string(at, byte, tape)?,
            _ if self.allow.unquoted_names && is_of_name(byte) => {
                let end = self.data[at..].iter().position(|byte| !is_of_name(*byte)).ok_or(Stop::Ends)? + at;
                push(tape, Kind::Plain, at, end);
                end
            }
            _ => return Err(Stop::Invalid(at, "expected a name in quotes")),
        };
        let colon = self.space(after)?;
        match self.data.get(colon) {
            Some(b':') => Ok(colon + 1),
            None => Err(Stop::Ends),
            Some(_) => Err(Stop::Invalid(colon, "expected a colon")),
        }
    }

    fn scalar(&self, at: usize, byte: u8, is_last: bool, tape: &mut Vec<Node>) -> Parsed<usize> {
        match byte {
            b'"' => self.string(at, byte, tape),
            b'\'' if self.allow.single_quotes => self.string(at, byte, tape),
            b'n' => self.word(at, is_last, b"null", Kind::Null, tape),
            b't' => self.word(at, is_last, b"true", Kind::True, tape),
            b'f' => self.word(at, is_last, b"false", Kind::False, tape),
            b'-' | b'0'..=b'9' => self.number(at, is_last, tape),
            b'N' | b'I' | b'+' if self.allow.non_numeric => self.not_finite(at, is_last, tape),
            _ => Err(Stop::Invalid(at, "expected a value")),
        }
    }

    fn word(&self, at: usize, is_last: bool, word: &[u8], kind: Kind, tape: &mut Vec<Node>) -> Parsed<usize> {
        let end = self.word_end(at, is_last)?;
        if &self.data[at..end] != word {
            return Err(Stop::Invalid(at, "expected a value"));
        }
        push(tape, kind, at, end);
        Ok(end)
    }

    fn not_finite(&self, at: usize, is_last: bool, tape: &mut Vec<Node>) -> Parsed<usize> {
        let end = self.word_end(at, is_last)?;
        let known: [&[u8]; 7] = [b"NaN", b"Infinity", b"-Infinity", b"+Infinity", b"INF", b"-INF", b"+INF"];
        if !known.contains(&&self.data[at..end]) {
            return Err(Stop::Invalid(at, "expected a value"));
        }
        push(tape, Kind::NotFinite, at, end);
        Ok(end)
    }

    fn word_end(&self, at: usize, is_last: bool) -> Parsed<usize> {
        let rest = &self.data[at..];
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'-' | b'_' | b'.'));
        length.or(is_last.then_some(rest.len())).map(|length| at + length).ok_or(Stop::Ends)
    }

    fn number(&self, start: usize, is_last: bool, tape: &mut Vec<Node>) -> Parsed<usize> {
        let mut at = start + usize::from(self.data[start] == b'-');
        if self.allow.non_numeric && self.data.get(at) == Some(&b'I') {
            return self.not_finite(start, is_last, tape);
        }
        let first = self.data.get(at).copied();
        let whole = self.digits(&mut at);
        if whole == 0 || (whole > 1 && first == Some(b'0') && !self.allow.leading_zeros) {
            return Err(self.unfinished(at, is_last, "expected a number"));
        }
        if self.data.get(at) == Some(&b'.') {
            at += 1;
            if self.digits(&mut at) == 0 {
                return Err(self.unfinished(at, is_last, "expected digits after the point"));
            }
        }
        if matches!(self.data.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(self.data.get(at), Some(b'+' | b'-')));
            if self.digits(&mut at) == 0 {
                return Err(self.unfinished(at, is_last, "expected an exponent"));
            }
        }
        match self.data.get(at) {
            None if !is_last => return Err(Stop::Ends),
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'"' | b'\'' | b'_') => {
                return Err(Stop::Invalid(at, "expected the end of the number"));
            }
            _ => {}
        }
        push(tape, Kind::Number, start, at);
        Ok(at)
    }

    fn unfinished(&self, at: usize, is_last: bool, why: &'static str) -> Stop {
        if at == self.data.len() && !is_last { Stop::Ends } else { Stop::Invalid(at, why) }
    }

    fn digits(&self, at: &mut usize) -> usize {
        let start = *at;
        while self.data.get(*at).is_some_and(u8::is_ascii_digit) {
            *at += 1;
        }
        *at - start
    }

    /// Read a string; `at` is the place of its quote.
    fn string(&self, at: usize, quote: u8, tape: &mut Vec<Node>) -> Parsed<usize> {
        let (start, mut kind) = (at + 1, Kind::Plain);
        let mut at = start;
        loop {
            while self.data.get(at).is_some_and(|byte| PLAIN[usize::from(*byte)]) {
                at += 1;
            }
            match self.data.get(at) {
                None => return Err(Stop::Ends),
                Some(byte) if *byte == quote => break,
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    at += self.escape(at)?;
                }
                Some(b'"' | b'\'') => at += 1,
                Some(_) if self.allow.unquoted_control => at += 1,
                Some(_) => return Err(Stop::Invalid(at, "a control character in a string")),
            }
        }
        push(tape, kind, start, at);
        Ok(at + 1)
    }

    /// Check an escape and return its length.
    fn escape(&self, at: usize) -> Parsed<usize> {
        match self.data.get(at + 1) {
            None => Err(Stop::Ends),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') => {
                let digits = &self.data[at + 2..self.data.len().min(at + 6)];
                match digits.iter().position(|byte| !byte.is_ascii_hexdigit()) {
                    Some(place) => Err(Stop::Invalid(at + 2 + place, "expected a hexadecimal digit")),
                    None if digits.len() < 4 => Err(Stop::Ends),
                    None => Ok(6),
                }
            }
            Some(b'\'') if self.allow.single_quotes => Ok(2),
            Some(byte) if self.allow.any_backslash && byte.is_ascii() => Ok(2),
            Some(_) => Err(Stop::Invalid(at + 1, "an unknown escape")),
        }
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-' | b'@' | b'#' | b'*') || byte >= 0x80
}

/// The containers that are open. Until a container is closed, its `next` is the place of the one around it.
#[derive(Default)]
struct Open {
    depth: usize,
    innermost: u32,
    is_object: bool,
}

impl Open {
    #[expect(clippy::cast_possible_truncation, reason = "records and tapes of a batch are below 1 GiB")]
    fn begin(&mut self, is_object: bool, at: usize, tape: &mut Vec<Node>) {
        let around = std::mem::replace(&mut self.innermost, tape.len() as u32);
        let kind = if is_object { Kind::Object } else { Kind::Array };
        tape.push(Node { kind, start: at as u32, end: at as u32, next: around });
        self.is_object = is_object;
        self.depth += 1;
    }

    /// The byte that closes the innermost container.
    fn end(&self) -> u8 {
        if self.is_object { b'}' } else { b']' }
    }

    /// Close the innermost container, which ends before `at`.
    #[expect(clippy::cast_possible_truncation, reason = "records and tapes of a batch are below 1 GiB")]
    fn close(&mut self, at: usize, tape: &mut [Node]) {
        let length = tape.len() as u32;
        let closed = &mut tape[self.innermost as usize];
        closed.end = at as u32;
        let around = std::mem::replace(&mut closed.next, length);
        self.depth -= 1;
        self.innermost = around;
        self.is_object = self.depth > 0 && tape[around as usize].kind == Kind::Object;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "records and tapes of a batch are below 1 GiB")]
fn push(tape: &mut Vec<Node>, kind: Kind, start: usize, end: usize) {
    let next = tape.len() as u32 + 1;
    tape.push(Node { kind, start: start as u32, end: end as u32, next });
}
