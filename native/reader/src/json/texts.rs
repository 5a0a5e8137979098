//! Strings without their escapes, and base64.

/// Append the text of a string to `made`. `false`: a surrogate stands alone, which is no character.
pub(super) fn unescape(text: &[u8], made: &mut Vec<u8>) -> bool {
    let mut rest = text;
    while let Some(place) = memchr::memchr(b'\\', rest) {
        made.extend_from_slice(&rest[..place]);
        rest = &rest[place..];
        let (character, length) = match rest {
            [_, b'u', ..] => match code(rest) {
                Some(found) => found,
                None => return false,
            },
            [_, byte, ..] => (simple(*byte), 2),
            _ => break,
        };
        made.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[length..];
    }
    made.extend_from_slice(rest);
    true
}

fn simple(byte: u8) -> char {
    match byte {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        other => other.into(),
    }
}

/// Return the character of `\uXXXX`, or of two of them that are a pair of surrogates, and the length of its text.
fn code(text: &[u8]) -> Option<(char, usize)> {
    let first = hexadecimal(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = text.get(6..).filter(|rest| rest.starts_with(b"\\u")).and_then(hexadecimal)?;
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)).map(|character| (character, 12))
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(text.get(2..6)?).ok()?, 16).ok()
}

/// Append the bytes of base64 to `made`, with or without padding, and without white space. `false` if it is invalid.
pub(super) fn base64(text: &[u8], made: &mut Vec<u8>) -> bool {
    if text.iter().any(|byte| *byte <= b' ') {
        let packed: Vec<u8> = text.iter().copied().filter(|byte| *byte > b' ').collect();
        return base64(&packed, made);
    }
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    if text.len() - end > 2 || (text.len() != end && !text.len().is_multiple_of(4)) || end % 4 == 1 {
        return false;
    }
    let (mut bits, mut count) = (0u32, 0);
    for byte in &text[..end] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return false,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            #[expect(clippy::cast_possible_truncation, reason = "the low byte is meant")]
            made.push((bits >> count) as u8);
        }
    }
    bits & ((1 << count) - 1) == 0
}
