//! Text from files in messages: short, and without control characters.

use arrow_schema::Field;
use tidemill_core::ddl::ddl;

const SHOWN: usize = 100;

/// Return text with bytes that are no UTF-8 as `\xff`, as Python's `backslashreplace` does.
#[must_use]
pub fn lossless(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        shown.push_str(chunk.valid());
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Return the start of a text for a message: control characters are escaped, and a long text ends in `…`.
#[must_use]
pub fn short(text: &[u8]) -> String {
    let text = lossless(&text[..text.len().min(8 * SHOWN)]);
    let mut shown: String = text.chars().take(SHOWN).map(visible).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

fn visible(character: char) -> String {
    match character {
        '\t' => "\\t".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        other if other.is_control() || is_invisible(other) => format!("\\u{{{:x}}}", u32::from(other)),
        other => other.into(),
    }
}

/// Whether a character looks like nothing, like a blank, or like a part of the one before it.
fn is_invisible(character: char) -> bool {
    let is_mark = matches!(character, '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}');
    let is_format = matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}');
    is_mark || is_format || (character.is_whitespace() && character != ' ')
}

/// Return names for a message: "`a`, `b`", at most ten of them.
#[must_use]
pub fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(10).map(|name| format!("`{}`", short(name.as_bytes()))).collect();
    let more = names.len().saturating_sub(10);
    shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Return why a text is no value of a column.
#[must_use]
pub fn misfit(text: Option<&[u8]>, field: &Field) -> String {
    let kind = ddl(field.data_type());
    match text {
        None => format!("found no value, expected {kind} not null"),
        Some(text) => format!("found `{}`, expected {kind}", short(text)),
    }
}
