//! Decimals from text: digits and a power of ten, rounded half up to the scale of a column, as Spark does.
//!
//! INVARIANT: digits are never converted to a floating-point number.

/// Return a decimal with `scale` digits after the point, without the point; `None` if it has more than `precision`.
///
/// A text is an optional sign, digits with at most one point, and an optional exponent. Digits beyond the scale are
/// rounded half up, away from zero.
pub fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mantissa = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
    let exponent = if mantissa < text.len() { exponent(&text[mantissa + 1..])? } else { 0 };
    let (whole, fraction) = point(&text[..mantissa])?;
    // The digits that count end `kept` digits after the start of `whole`.
    let kept = i64::try_from(whole.len()).ok()?.checked_add(exponent)?.checked_add(i64::from(scale))?;
    let unscaled = rounded(whole, fraction, kept)?;
    let limit = 10i128.checked_pow(u32::from(precision))?;
    (unscaled < limit).then_some(if negative { -unscaled } else { unscaled })
}

/// Return the digits before and after the point, at least one in all.
fn point(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = at.map_or((text, &[][..]), |at| (&text[..at], &text[at + 1..]));
    let all_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    (all_digits && whole.len() + fraction.len() > 0).then_some((whole, fraction))
}

/// Return the exponent, an optional sign and digits. Java's bounds of an exponent are those of an `int`.
fn exponent(text: &[u8]) -> Option<i64> {
    super::number::integer(text, i64::from(i32::MIN), i64::from(i32::MAX))
}

/// Return the number that the first `kept` digits are; fewer digits are filled up with zeros, more are rounded.
fn rounded(whole: &[u8], fraction: &[u8], kept: i64) -> Option<i128> {
    let count = i64::try_from(whole.len() + fraction.len()).ok()?;
    let mut value: i128 = 0;
    for digit in whole.iter().chain(fraction).take(usize::try_from(kept).unwrap_or(0)) {
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    if kept < 0 {
        return Some(0);
    }
    if kept < count {
        let next = whole.iter().chain(fraction).nth(usize::try_from(kept).ok()?)?;
        return value.checked_add(i128::from(*next >= b'5'));
    }
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10i128.checked_pow(u32::try_from(kept - count).ok()?)?)
}
