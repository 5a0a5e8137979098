//! Numbers and booleans from text, by the rules of `java.lang`, which Spark applies to CSV.
//!
//! INVARIANT: a text is converted exactly to its type, or not at all.

/// Return the integer that a text is: an optional sign and digits, nothing else, within the bounds of the type.
pub fn integer(text: &[u8], least: i64, greatest: i64) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0; // negative, because the least integer has no positive counterpart
    if digits.len() <= 18 {
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 - i64::from(digit);
        }
    } else {
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
        }
    }
    let value = if negative { value } else { value.checked_neg()? };
    (least <= value && value <= greatest).then_some(value)
}

/// Return the double that a text is, as `Double.parseDouble` reads it, and Spark's names of what is not finite.
///
/// White space around it is ignored. A `d` or `f` may follow. A number beyond the range becomes infinite or zero.
pub fn double(text: &[u8]) -> Option<f64> {
    match finite(text) {
        Some(digits) => digits.parse().ok(),
        None => not_finite(text).or_else(|| hexadecimal(text)),
    }
}

/// Return the float that a text is; see `double`.
pub fn float(text: &[u8]) -> Option<f32> {
    match finite(text) {
        Some(digits) => digits.parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "it is not finite, or hexadecimal, which is rare")]
        None => not_finite(text).or_else(|| hexadecimal(text)).map(|value| value as f32),
    }
}

/// Return the number without white space and suffix, if it is a decimal number: `1`, `-1.5`, `.5`, `5.`, `1e-3`.
fn finite(text: &[u8]) -> Option<&str> {
    let mut text = trimmed(text);
    if let [rest @ .., b'd' | b'D' | b'f' | b'F'] = text {
        text = rest;
    }
    let mut at = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let mut digits = 0;
    let run = |at: &mut usize| {
        let start = *at;
        while text.get(*at).is_some_and(u8::is_ascii_digit) {
            *at += 1;
        }
        *at - start
    };
    digits += run(&mut at);
    if text.get(at) == Some(&b'.') {
        at += 1;
        digits += run(&mut at);
    }
    if digits == 0 {
        return None;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        if run(&mut at) == 0 {
            return None;
        }
    }
    if at == text.len() { std::str::from_utf8(text).ok() } else { None }
}

fn not_finite(text: &[u8]) -> Option<f64> {
    match text {
        b"Inf" => return Some(f64::INFINITY), // Spark's options positiveInf and negativeInf, compared as they are
        b"-Inf" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    match trimmed(text) {
        b"NaN" | b"+NaN" | b"-NaN" => Some(f64::NAN),
        b"Infinity" | b"+Infinity" => Some(f64::INFINITY),
        b"-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Return the value of a hexadecimal number such as `0x1.8p3`, if its digits fit into a double exactly.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(trimmed(text)).ok()?.to_ascii_lowercase();
    let text = text.strip_suffix(['d', 'f']).unwrap_or(&text);
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, exponent) = rest.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || all.len() > 13 || exponent.starts_with("+-") {
        return None;
    }
    let mantissa = u64::from_str_radix(&all, 16).ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let scale = i32::try_from(4 * fraction.len()).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "at most 52 bits")]
    let value = mantissa as f64 * 2f64.powi(exponent.checked_sub(scale)?);
    Some(if negative { -value } else { value })
}

/// Return the boolean that a text is, in any case of letters.
pub fn boolean(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

/// Return a text without the characters up to the space at both ends, as Java's `trim`.
pub fn trimmed(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte > b' ').unwrap_or(text.len());
    let end = text.iter().rposition(|byte| *byte > b' ').map_or(start, |last| last + 1);
    &text[start..end]
}
