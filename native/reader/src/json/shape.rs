//! What values a file of JSON has under each name, from which a schema can be made.
//!
//! INVARIANT: records, names and texts are those that the reader of rows sees.

use std::collections::HashMap;

use super::convert::Values;
use super::tape::Kind;
use super::texts::unescape;

/// Objects and arrays at this depth are `deep`: what is in them is not looked at, since types are at most so deep.
const MAX_SHAPE_DEPTH: usize = 20;

/// The values of one name, or the elements of the arrays of one name.
#[derive(Debug, Default)]
pub struct Shape {
    /// Which kinds of values there are, other than numbers and text.
    pub kinds: Vec<&'static str>,
    /// The numbers, as they are written.
    pub numbers: Vec<String>,
    /// The strings, without their escapes.
    pub texts: Vec<String>,
    /// The names in the objects, in order of their first appearance.
    pub fields: Vec<(String, Shape)>,
    /// The elements of the arrays.
    pub elements: Option<Box<Shape>>,
    places: HashMap<String, usize>,
}

impl Shape {
    /// Add a value.
    pub(super) fn add(&mut self, values: &Values<'_>, at: u32, depth: usize) {
        let node = values.tape[at as usize];
        let text = || String::from_utf8_lossy(node.text(values.data)).into_owned();
        match node.kind {
            Kind::Null => self.note("null"),
            Kind::True | Kind::False => self.note("boolean"),
            Kind::NotFinite => self.note("not finite"),
            Kind::Number => self.numbers.push(text()),
            Kind::Plain => self.texts.push(text()),
            Kind::Escaped => {
                let mut made = Vec::new();
                if unescape(node.text(values.data), &mut made) {
                    self.texts.push(String::from_utf8_lossy(&made).into_owned());
                } else {
                    self.note("no text");
                }
            }
            Kind::Object | Kind::Array if depth == MAX_SHAPE_DEPTH => self.note("deep"),
            Kind::Object => {
                self.note("object");
                let mut made = Vec::new();
                for (key, value) in values.distinct(at) {
                    let name = String::from_utf8_lossy(values.key(key, &mut made)).into_owned();
                    self.field(name).add(values, value, depth + 1);
                }
            }
            Kind::Array => {
                self.note("array");
                for element in values.children(at) {
                    self.elements.get_or_insert_default().add(values, element, depth + 1);
                }
            }
        }
    }

    fn note(&mut self, kind: &'static str) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    fn field(&mut self, name: String) -> &mut Self {
        let fields = &mut self.fields;
        let place = *self.places.entry(name).or_insert_with_key(|name| {
            fields.push((name.clone(), Self::default()));
            fields.len() - 1
        });
        &mut self.fields[place].1
    }
}
