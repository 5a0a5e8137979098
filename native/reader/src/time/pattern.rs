//! Patterns of dates and times in Spark's letters: checked when they are declared, and split into items.
//!
//! Letters and widths are those of "Datetime Patterns for Formatting and Parsing" in Spark's documentation, which
//! follows `java.time.format.DateTimeFormatter`. INVARIANT: a pattern that is accepted has no letter that is ignored.

/// A pattern of dates and times.
#[derive(Debug, Clone)]
pub struct Pattern {
    pub(super) items: Vec<Item>,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A number: at least so many and at most so many digits. A fixed number may be followed by further ones without a
    /// separator.
    Number { field: Number, least: usize, most: usize },
    /// The last two digits of a year from 2000 on.
    ShortYear,
    /// The name of a month, in full or its first three letters.
    Month { is_full: bool },
    /// `AM` or `PM`.
    HalfDay,
    /// `AD` or `BC`.
    Era,
    /// A fraction of a second with 1 to this number of digits.
    Fraction(usize),
    /// An offset such as `+01:00`.
    Offset(Offset),
    /// The name of a zone, or an offset.
    Zone,
    /// Characters that stand as they are.
    Literal(String),
    /// A part that may be missing.
    Optional(Vec<Item>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Year,
    Month,
    Day,
    DayOfYear,
    /// 0 to 23.
    Hour,
    /// 1 to 12.
    HalfDayHour,
    /// 0 to 11.
    HalfDayHourFromZero,
    /// 1 to 24.
    HourFromOne,
    Minute,
    Second,
}

/// How an offset is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// Whether `Z` stands for no offset.
    pub(super) has_z: bool,
    /// Whether a colon stands between hours and minutes.
    pub(super) has_colon: bool,
    /// Whether minutes may be missing, and whether seconds may follow.
    pub(super) minutes: Minutes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Minutes {
    Optional,
    Required,
    AndSeconds,
}

impl Pattern {
    /// Split a pattern. The error says which letter is refused, and what to write.
    pub fn new(pattern: &str) -> Result<Self, String> {
        if pattern.contains('%') {
            return Err(format!(
                "`%` is no letter of a pattern; expected Spark's letters\nhint: write {}",
                translated(pattern)
                    .map_or_else(|| "letters such as yyyy-MM-dd HH:mm:ss".into(), |made| format!("`{made}`"))
            ));
        }
        let mut characters = pattern.chars().collect::<Vec<_>>().into_iter().peekable();
        let mut open: Vec<Vec<Item>> = vec![Vec::new()];
        let mut position = 0;
        while let Some(character) = characters.next() {
            position += 1;
            match character {
                '[' => open.push(Vec::new()),
                ']' => {
                    let inner = open.pop().filter(|_| !open.is_empty());
                    let inner = inner.ok_or_else(|| format!("`]` at character {position} closes no `[`"))?;
                    push(&mut open, Item::Optional(inner));
                }
                '\'' => {
                    let (text, count) = quoted(&mut characters)
                        .ok_or_else(|| format!("the quote at character {position} is not closed"))?;
                    position += count;
                    push(&mut open, Item::Literal(text));
                }
                letter if letter.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while characters.next_if_eq(&letter).is_some() {
                        count += 1;
                    }
                    let made = item(letter, count).ok_or_else(|| refused(letter, count, position))?;
                    position += count - 1;
                    push(&mut open, made);
                }
                '#' | '{' | '}' => return Err(format!("`{character}` at character {position} is reserved")),
                other => push(&mut open, Item::Literal(other.into())),
            }
        }
        match <[_; 1]>::try_from(open) {
            Ok([items]) if items.is_empty() => Err("it is empty".into()),
            Ok([items]) => Ok(Self { items }),
            Err(_) => Err("a `[` is not closed".into()),
        }
    }
}

fn push(open: &mut [Vec<Item>], item: Item) {
    if let Some(last) = open.last_mut() {
        last.push(item);
    }
}

/// Read a quoted text up to its closing quote; two quotes are one. Return it, and the number of characters.
fn quoted(characters: &mut std::iter::Peekable<std::vec::IntoIter<char>>) -> Option<(String, usize)> {
    let (mut text, mut count) = (String::new(), 0);
    loop {
        count += 1;
        match characters.next()? {
            '\'' if text.is_empty() && count == 1 => return Some(("'".into(), count)),
            '\'' if characters.next_if_eq(&'\'').is_some() => {
                count += 1;
                text.push('\'');
            }
            '\'' => return Some((text, count)),
            other => text.push(other),
        }
    }
}

fn item(letter: char, count: usize) -> Option<Item> {
    let number = |field, most| {
        let (least, most) = if count == 1 { (1, most) } else { (count, count) };
        (count <= 2).then_some(Item::Number { field, least, most })
    };
    match (letter, count) {
        ('y', 2) => Some(Item::ShortYear),
        ('y', 1) => Some(Item::Number { field: Number::Year, least: 1, most: 4 }),
        ('y', 3..=4) => Some(Item::Number { field: Number::Year, least: count, most: 4 }),
        ('M' | 'L', 3) => Some(Item::Month { is_full: false }),
        ('M' | 'L', 4) => Some(Item::Month { is_full: true }),
        ('M' | 'L', _) => number(Number::Month, 2),
        ('d', _) => number(Number::Day, 2),
        ('D', 1) => Some(Item::Number { field: Number::DayOfYear, least: 1, most: 3 }),
        ('D', 3) => Some(Item::Number { field: Number::DayOfYear, least: 3, most: 3 }),
        ('H', _) => number(Number::Hour, 2),
        ('h', _) => number(Number::HalfDayHour, 2),
        ('K', _) => number(Number::HalfDayHourFromZero, 2),
        ('k', _) => number(Number::HourFromOne, 2),
        ('m', _) => number(Number::Minute, 2),
        ('s', _) => number(Number::Second, 2),
        ('S', 1..=9) => Some(Item::Fraction(count)),
        ('a', 1) => Some(Item::HalfDay),
        ('G', 1..=3) => Some(Item::Era),
        ('X' | 'x', 1..=5) => Some(Item::Offset(Offset {
            has_z: letter == 'X',
            has_colon: count == 3 || count == 5,
            minutes: match count {
                1 => Minutes::Optional,
                2 | 3 => Minutes::Required,
                _ => Minutes::AndSeconds,
            },
        })),
        ('Z', 1..=3) => Some(Item::Offset(Offset { has_z: false, has_colon: false, minutes: Minutes::Required })),
        ('Z', 5) => Some(Item::Offset(Offset { has_z: true, has_colon: true, minutes: Minutes::AndSeconds })),
        ('V', 2) | ('z', 1..=4) | ('O', 1 | 4) | ('Z', 4) => Some(Item::Zone),
        _ => None,
    }
}

fn refused(letter: char, count: usize, position: usize) -> String {
    let letters: String = std::iter::repeat_n(letter, count).collect();
    let instead = match letter {
        'Y' | 'w' | 'W' | 'e' | 'c' => "weeks cannot be read; use yyyy, MM and dd",
        'E' => "days of the week cannot be read, in Spark neither; quote the text, or leave it out",
        'u' => "use yyyy for years",
        'Q' | 'q' => "quarters cannot be read; use MM",
        'n' | 'N' | 'A' => "use S for fractions of a second",
        'D' => "use D or DDD",
        _ => "use letters such as yyyy MM dd HH mm ss SSS XXX",
    };
    format!("the letters `{letters}` at character {position} are not supported: {instead}")
}

/// Return a `strptime` pattern in Spark's letters, if it has only common directives.
fn translated(pattern: &str) -> Option<String> {
    let mut made = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '%' => made.push_str(match characters.next()? {
                'Y' => "yyyy",
                'y' => "yy",
                'm' => "MM",
                'd' => "dd",
                'H' => "HH",
                'I' => "hh",
                'M' => "mm",
                'S' => "ss",
                'f' | 'n' => "SSSSSS",
                'g' => "SSS",
                'p' => "a",
                'b' => "MMM",
                'B' => "MMMM",
                'j' => "DDD",
                'z' => "XXX",
                _ => return None,
            }),
            letter if letter.is_ascii_alphabetic() => made.push_str(&format!("'{letter}'")),
            other => made.push(other),
        }
    }
    Some(made)
}
