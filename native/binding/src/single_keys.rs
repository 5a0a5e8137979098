//! `SingleKeys`: puts and gets of one key at a time. Puts wait in a hash map, and are sealed into one run together.
//!
//! INVARIANT: nothing of Python runs while a lock is held: any object made may start the garbage collector, and with it
//! a `__del__` that calls this map. Keys, states and columns are made before, shown and let go after; so are errors.
//! INVARIANT: a lock is held by who has the GIL alone, so a process that was forked never finds it locked.
//! INVARIANT: a seal that fails loses nothing: what waits is forgotten when the map has taken it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ArrayRef;
use pyo3::prelude::*;
use tidemill_core::{Changes, Keys, Result};

use crate::codec::PyCodec;
use crate::error::Raise;
use crate::map::PyStateMap;
use crate::value::{Builder, Shape, Value, column_of_one};

/// So many keys wait at most: a run of them costs little to sort, and their hash map lies in cache.
const MOST_WAITING: usize = 1 << 14;
/// So many bytes of keys and states wait at most: one column must hold them.
const MOST_BYTES: usize = 64 << 20;

/// Puts and gets of one key at a time, before a state map whose keys have no sub-keys.
#[pyclass(name = "SingleKeys", module = "tidemill._native", frozen)]
pub(crate) struct PySingleKeys {
    codec: Py<PyCodec>,
    map: Py<PyStateMap>,
    most_bytes: usize,
    waiting: Mutex<Waiting>,
}

/// What was put last for a key.
struct Put {
    key: Value,
    /// `None`: the key was removed.
    state: Option<Value>,
    updated_ms: i64,
    deadline_ms: Option<i64>,
    nbytes: usize,
}

/// A put that waits, and how many were put before it.
struct Entry {
    keys: Keys,
    put: Arc<Put>,
    number: u64,
}

/// Puts by the hash of their key, and by how many other keys of that hash came before it.
#[derive(Default)]
struct Waiting {
    puts: HashMap<(u64, u32), Entry>,
    nbytes: usize,
    /// How many there ever were.
    numbered: u64,
    /// How often the map has taken what waited.
    seals: u64,
}

/// What waited at one moment.
struct Snapshot {
    puts: Vec<Arc<Put>>,
    numbered: u64,
    seals: u64,
}

impl Waiting {
    /// Adds a put; what it takes the place of is the caller's to let go.
    fn put(&mut self, keys: Keys, put: Put) -> Option<Arc<Put>> {
        self.numbered += 1;
        self.insert(Entry { keys, put: Arc::new(put), number: self.numbered })
    }

    fn insert(&mut self, entry: Entry) -> Option<Arc<Put>> {
        let hash = entry.keys.hash(0);
        self.nbytes += entry.put.nbytes;
        for nth in 0.. {
            match self.puts.entry((hash, nth)) {
                Place::Vacant(free) => {
                    free.insert(entry);
                    return None;
                }
                Place::Occupied(mut there) if there.get().keys.eq_at(0, &entry.keys, 0) => {
                    let old = there.insert(entry).put;
                    self.nbytes -= old.nbytes;
                    return Some(old);
                }
                Place::Occupied(_) => {}
            }
        }
        None
    }

    fn get(&self, keys: &Keys) -> Option<Arc<Put>> {
        let mut there = (0..).map_while(|nth| self.puts.get(&(keys.hash(0), nth)));
        there.find(|other| other.keys.eq_at(0, keys, 0)).map(|other| Arc::clone(&other.put))
    }

    fn snapshot(&self) -> Snapshot {
        let puts = self.puts.values().map(|entry| Arc::clone(&entry.put)).collect();
        Snapshot { puts, numbered: self.numbered, seals: self.seals }
    }

    /// Forgets what the map has taken; what was put since waits on.
    fn forget(&mut self, taken: &Snapshot) {
        self.seals += 1;
        self.nbytes = 0;
        let puts = std::mem::take(&mut self.puts);
        for entry in puts.into_values().filter(|entry| entry.number > taken.numbered) {
            self.insert(entry);
        }
    }
}

#[pymethods]
impl PySingleKeys {
    #[new]
    #[pyo3(signature = (codec, map, most_bytes=MOST_BYTES))]
    fn new(codec: Py<PyCodec>, map: Py<PyStateMap>, most_bytes: usize) -> Self {
        Self { codec, map, most_bytes, waiting: Mutex::default() }
    }

    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let codec = self.codec.get();
        let keys = self.keys(py, key)?.1;
        let waiting = self.lock(py).get(&keys);
        if let Some(put) = waiting {
            return put.state.as_ref().map(|state| codec.state.show(py, state, &codec.zone)).transpose();
        }
        let found = self.map.get().with(py, |map| map.find_one(&keys));
        let shown = |(columns, row): (Vec<ArrayRef>, usize)| {
            codec.state.decode(&codec.state.decoders(&columns), py, row, &codec.zone)
        };
        found.map(shown).transpose()
    }

    fn contains(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let keys = self.keys(py, key)?.1;
        let waiting = self.lock(py).get(&keys);
        if let Some(put) = waiting {
            return Ok(put.state.is_some());
        }
        let found = self.map.get().with(py, |map| map.find_one(&keys));
        Ok(found.is_some())
    }

    #[pyo3(signature = (key, state, updated_ms, deadline_ms=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        state: &Bound<'_, PyAny>,
        updated_ms: i64,
        deadline_ms: Option<i64>,
    ) -> PyResult<()> {
        let (key, keys) = self.keys(py, key)?;
        let state = self.codec.get().parsed_state(state)?;
        let nbytes = key.nbytes(py)? + state.nbytes(py)?;
        self.add(py, keys, Put { key, state: Some(state), updated_ms, deadline_ms, nbytes })
    }

    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, keys) = self.keys(py, key)?;
        let nbytes = key.nbytes(py)?;
        self.add(py, keys, Put { key, state: None, updated_ms: 0, deadline_ms: None, nbytes })
    }

    /// The map, with all that waited.
    fn sealed(&self, py: Python<'_>) -> PyResult<Py<PyStateMap>> {
        self.seal(py)?;
        Ok(self.map.clone_ref(py))
    }
}

impl PySingleKeys {
    fn lock(&self, _py: Python<'_>) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<(Value, Keys)> {
        let codec = self.codec.get();
        let key = codec.parsed_key(object)?;
        let columns = match (&codec.key, &key) {
            (Shape::Record(_), Value::Struct(values)) => {
                let fields = codec.schema.key.iter().zip(values);
                fields.map(|(field, value)| column_of_one(py, value, field.data_type())).collect::<PyResult<_>>()?
            }
            (_, value) => vec![column_of_one(py, value, codec.schema.key[0].data_type())?],
        };
        let keys = Keys::with_sub_keys(&columns, &[], 1).raise(py)?;
        Ok((key, keys))
    }

    fn add(&self, py: Python<'_>, keys: Keys, put: Put) -> PyResult<()> {
        if put.nbytes >= self.most_bytes {
            self.seal(py)?; // it never waits: what is refused would be refused for ever
            let changes = changes(py, self.codec.get(), &[Arc::new(put)])?;
            return self.map.get().change(py, |map| map.change(&changes));
        }
        let mut waiting = self.lock(py);
        let replaced = waiting.put(keys, put);
        let is_full = waiting.puts.len() >= MOST_WAITING || waiting.nbytes >= self.most_bytes;
        drop(waiting);
        drop(replaced);
        if is_full { self.seal(py) } else { Ok(()) }
    }

    /// Gives the map all that waits now. Columns are made without the lock, so another call, of another thread or of a
    /// `__del__` in this one, may have sealed what they hold: then they are stale, and the rest is looked at anew.
    fn seal(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            let waits = self.lock(py).snapshot();
            if waits.puts.is_empty() {
                return Ok(());
            }
            let changes = changes(py, self.codec.get(), &waits.puts)?;
            let taken = self.map.get().change_if(
                py,
                || self.lock(py).seals == waits.seals,
                |map| map.change(&changes),
                || self.lock(py).forget(&waits),
            )?;
            if taken.is_some() {
                return Ok(());
            }
        }
    }
}

/// What these puts change, in no order: a key is there once.
fn changes(py: Python<'_>, codec: &PyCodec, puts: &[Arc<Put>]) -> PyResult<Changes> {
    let (mut keys, mut states) = (codec.key.builders(), codec.state.builders());
    let nothing = codec.state.nothing();
    for put in puts {
        codec.key.append(py, &put.key, &mut keys)?;
        codec.state.append(py, put.state.as_ref().unwrap_or(&nothing), &mut states)?;
    }
    let finished = |columns: Vec<Builder>| columns.into_iter().map(Builder::finish).collect::<Result<_>>();
    Ok(Changes {
        keys: finished(keys).raise(py)?,
        sub_keys: Vec::new(),
        values: finished(states).raise(py)?,
        updated_at: puts.iter().map(|put| put.updated_ms).collect(),
        deadline: puts.iter().map(|put| put.deadline_ms).collect(),
        deleted: puts.iter().map(|put| put.state.is_none()).collect(),
    })
}
