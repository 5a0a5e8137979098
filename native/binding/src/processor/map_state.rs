//! `MapState`: values by a key of the user's own within each grouping key (Spark: `MapState`).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::Schema;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};
use tidemill_core::operator::{Stored, Written};

use super::current_key::CurrentKey;
use super::ordered;
use super::variable_type::VariableType;
use super::written::Puts;
use crate::arrow::schema_in;
use crate::spark::class_of;
use crate::value::{Decoder, Shape, Value};

/// An entry in this visit.
struct Entry {
    /// Its row, if it is stored.
    stored: Option<usize>,
    now: Now,
}

enum Now {
    AsStored,
    Put(Value, Value),
    Removed,
}

impl Entry {
    fn is_there(&self) -> bool {
        !matches!(self.now, Now::Removed)
    }
}

/// The entries of a grouping key, by the `ordered` bytes of the user's key.
type Entries = BTreeMap<Vec<u8>, Entry>;

/// Values by a key of your own within each grouping key (Spark: `MapState`).
///
/// Usable only while the processor is called for a key; otherwise calls raise `CallRefused`. Iterators show the entries
/// as they were when the iterator was made, in the order of your keys: numbers and times by value, texts by their UTF-8
/// bytes, null first.
///
/// >>> import tidemill as tm
/// >>> class PerPage(tm.StatefulProcessor):
/// ...     def init(self, handle):
/// ...         self.pages = handle.getMapState("pages", "page string", "n bigint")
/// ...
/// ...     def handleInputRows(self, key, rows, timerValues):
/// ...         for row in rows:
/// ...             (n,) = self.pages.getValue((row.page,)) or (0,)
/// ...             self.pages.updateValue((row.page,), (n + 1,))
/// ...         yield (*key, str([(page, n) for (page,), (n,) in self.pages.iterator()]))
/// >>> p = tm.Pipeline("maps")
/// >>> pages = p.read(tm.Rows("user string, page string")).groupBy("user").transformWithState(
/// ...     PerPage(), "user string, pages string", "update", "None"
/// ... )
/// >>> tm.testing.Tester(p).batch([("a", "home"), ("a", "cart"), ("a", "home")]).outputs
/// [('a', "[('cart', 1), ('home', 2)]")]
#[pyclass(name = "MapState", module = "tidemill._native")]
pub(crate) struct PyMapState {
    kind: Arc<VariableType>,
    user_key: Arc<Shape>,
    /// The shape of a value from `getValue`: a `Row`, as in Spark. Iterators return tuples.
    row: Shape,
    at: CurrentKey,
    stored: Stored,
    keys: Vec<Decoder>,
    values: Vec<Decoder>,
    /// `None`: not read yet.
    slots: Vec<Option<Entries>>,
}

impl PyMapState {
    /// From now on, use the key of `at`.
    pub(super) fn follow(&mut self, at: CurrentKey) {
        self.at = at;
    }

    /// Begin a visit. `stored` has the stored rows of its keys.
    pub(super) fn begin(&mut self, stored: &Stored) {
        self.keys = self.user_key.decoders(&stored.sub_keys);
        self.values = self.kind.value.decoders(&stored.values);
        self.slots.clear();
        self.slots.resize_with(stored.ends.len(), || None);
        self.stored = stored.clone();
    }

    /// Discard the changes of this key, because its calls failed.
    pub(super) fn forget(&mut self, key: usize) {
        self.slots[key] = None;
    }

    /// Return the changes of all keys, and end the visit.
    pub(super) fn finish(&mut self, py: Python<'_>) -> tidemill_core::Result<Written> {
        let mut removed = Vec::new();
        let mut puts = Puts::new(Some(&self.user_key), &self.kind.value);
        for (key, entries) in self.slots.drain(..).enumerate() {
            for entry in entries.into_iter().flat_map(Entries::into_values) {
                match entry.now {
                    Now::AsStored => {}
                    Now::Put(user_key, value) => puts.add(py, key, Some(&user_key), &value)?,
                    Now::Removed => removed.extend(entry.stored),
                }
            }
        }
        removed.sort_unstable();
        self.keys.clear();
        self.values.clear();
        puts.finish(removed, Vec::new())
    }

    /// The entries of the current call's key.
    fn entries(&mut self, py: Python<'_>) -> PyResult<&mut Entries> {
        let key = self.at.key(py, || self.kind.described())?;
        let stored = &self.stored;
        Ok(self.slots[key].get_or_insert_with(|| {
            let entry = |row| (ordered::of_row(&stored.sub_keys, row), Entry { stored: Some(row), now: Now::AsStored });
            stored.rows_of(key).map(entry).collect()
        }))
    }

    fn shown_key<'py>(&self, py: Python<'py>, entry: &Entry) -> PyResult<Option<Bound<'py, PyAny>>> {
        let zone = &self.kind.zone;
        match (&entry.now, entry.stored) {
            (Now::Put(key, _), _) => self.user_key.show(py, key, zone).map(Some),
            (Now::AsStored, Some(row)) => self.user_key.decode(&self.keys, py, row, zone).map(Some),
            _ => Ok(None),
        }
    }

    fn shown_value<'py>(&self, py: Python<'py>, entry: &Entry, shape: &Shape) -> PyResult<Option<Bound<'py, PyAny>>> {
        let zone = &self.kind.zone;
        match (&entry.now, entry.stored) {
            (Now::Put(_, value), _) => shape.show(py, value, zone).map(Some),
            (Now::AsStored, Some(row)) => shape.decode(&self.values, py, row, zone).map(Some),
            _ => Ok(None),
        }
    }

    /// Return an iterator over the results of `show` for all entries, in the order of their keys.
    fn listed<'py>(
        &mut self,
        py: Python<'py>,
        show: impl Fn(&Self, &Entry) -> PyResult<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Bound<'py, PyIterator>> {
        self.entries(py)?;
        let key = self.at.key(py, || self.kind.described())?;
        let list = PyList::empty(py);
        for entry in self.slots[key].iter().flat_map(Entries::values) {
            if let Some(shown) = show(self, entry)? {
                list.append(shown)?;
            }
        }
        list.try_iter()
    }
}

/// Parse a user's key to a value and to bytes. The state is not borrowed meanwhile, because reading the key may run
/// user code that uses this state.
fn parse_key(slf: &Bound<'_, PyMapState>, key: &Bound<'_, PyAny>) -> PyResult<(Value, Vec<u8>)> {
    let (kind, shape) = {
        let state = slf.try_borrow()?;
        (Arc::clone(&state.kind), Arc::clone(&state.user_key))
    };
    let value = kind.parse_as(&shape, key, "key")?;
    let bytes = ordered::of_value(slf.py(), &value)?;
    Ok((value, bytes))
}

#[pymethods]
#[expect(non_snake_case, reason = "Spark's names")]
impl PyMapState {
    #[new]
    fn new(
        py: Python<'_>,
        operator: &str,
        name: &str,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        time_zone: &str,
    ) -> PyResult<Self> {
        let kind = VariableType::new(py, operator, name, "map", &schema_in(value)?, time_zone)?;
        let key: Schema = schema_in(key)?;
        Ok(Self {
            kind: Arc::new(kind),
            row: Shape::record(py, schema_in(value)?.fields(), None)?,
            user_key: Arc::new(Shape::tuple(py, key.fields())?),
            at: CurrentKey::default(),
            stored: Stored::default(),
            keys: Vec::new(),
            values: Vec::new(),
            slots: Vec::new(),
        })
    }

    /// PySpark's class, so that `isinstance` checks of processors succeed.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        class_of(slf, "pyspark.sql.streaming.stateful_processor", "MapState")
    }

    /// Return whether the map has entries.
    fn exists(&mut self, py: Python<'_>) -> PyResult<bool> {
        self.at.key(py, || format!("Error checking map state exists: {}", self.kind.described()))?;
        Ok(self.entries(py)?.values().any(Entry::is_there))
    }

    /// Return the value of a key as a `tidemill.rows.Row`, as Spark does, or None. Iterators return tuples.
    fn getValue<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (_, bytes) = parse_key(slf, key)?;
        let mut state = slf.try_borrow_mut()?;
        state.entries(slf.py())?;
        let key = state.at.key(slf.py(), || state.kind.described())?;
        match state.slots[key].as_ref().and_then(|entries| entries.get(&bytes)) {
            Some(entry) => state.shown_value(slf.py(), entry, &state.row),
            None => Ok(None),
        }
    }

    /// Return whether the map has an entry for the key.
    fn containsKey(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (_, bytes) = parse_key(slf, key)?;
        Ok(slf.try_borrow_mut()?.entries(slf.py())?.get(&bytes).is_some_and(Entry::is_there))
    }

    /// Set the value of a key. Raises `InvalidInput` if the key or the value does not fit its schema.
    fn updateValue(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (user_key, bytes) = parse_key(slf, key)?;
        let kind = Arc::clone(&slf.try_borrow()?.kind);
        let value = kind.parse(value)?;
        let mut state = slf.try_borrow_mut()?;
        let entry = state.entries(slf.py())?.entry(bytes).or_insert(Entry { stored: None, now: Now::Removed });
        entry.now = Now::Put(user_key, value);
        Ok(())
    }

    /// Return an iterator over (key, value) pairs of tuples.
    fn iterator<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.listed(py, |state, entry| {
            match (state.shown_key(py, entry)?, state.shown_value(py, entry, &state.kind.value)?) {
                (Some(key), Some(value)) => Ok(Some(PyTuple::new(py, [key, value])?.into_any())),
                _ => Ok(None),
            }
        })
    }

    /// Return an iterator over the keys, as tuples.
    fn keys<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.listed(py, |state, entry| state.shown_key(py, entry))
    }

    /// Return an iterator over the values, as tuples, in the order of their keys.
    fn values<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.listed(py, |state, entry| state.shown_value(py, entry, &state.kind.value))
    }

    /// Remove the entry of a key. An unknown key is not an error.
    fn removeKey(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (_, bytes) = parse_key(slf, key)?;
        if let Some(entry) = slf.try_borrow_mut()?.entries(slf.py())?.get_mut(&bytes) {
            entry.now = Now::Removed;
        }
        Ok(())
    }

    /// Remove all entries.
    fn clear(&mut self, py: Python<'_>) -> PyResult<()> {
        self.entries(py)?.values_mut().for_each(|entry| entry.now = Now::Removed);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.kind.described())
    }
}
