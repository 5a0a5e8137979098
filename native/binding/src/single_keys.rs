//! `SingleKeys`: puts and gets of one key at a time. Puts are buffered in a hash map, and flushed into one run
//! together.
//!
//! INVARIANT: no Python code runs while the lock is held, because creating an object may start the garbage collector,
//! which may run a `__del__` that calls this map. Keys, states, columns and errors are created before the lock is taken
//! and dropped after it is released.
//! INVARIANT: only a thread with the GIL holds the lock, so that a forked process never finds it locked.
//! INVARIANT: a flush that fails loses nothing: puts leave the buffer only after the map has them.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ArrayRef;
use pyo3::prelude::*;
use tidemill_core::{Changes, Keys, Result};

use crate::codec::PyCodec;
use crate::error::Raise;
use crate::map::PyStateMap;
use crate::value::{Builder, Shape, Value, column_of_one};

/// The most buffered keys: a run of them costs little to sort, and their hash map fits in the CPU's cache.
const MOST_WAITING: usize = 1 << 14;
/// The most bytes of buffered keys and states, because one column must hold them.
const MOST_BYTES: usize = 64 << 20;

/// Puts and gets of one key at a time, before a state map whose keys have no sub-keys.
#[pyclass(name = "SingleKeys", module = "tidemill._native", frozen)]
pub(crate) struct PySingleKeys {
    codec: Py<PyCodec>,
    map: Py<PyStateMap>,
    most_bytes: usize,
    waiting: Mutex<Waiting>,
}

/// The last put of a key.
struct Put {
    key: Value,
    /// `None`: the key was removed.
    state: Option<Value>,
    updated_ms: i64,
    deadline_ms: Option<i64>,
    nbytes: usize,
}

/// A buffered put and its number in the order of puts.
struct Entry {
    keys: Keys,
    put: Arc<Put>,
    number: u64,
}

/// The buffer: puts by the hash of their key and, because hashes may collide, an index among the keys of that hash.
#[derive(Default)]
struct Waiting {
    puts: HashMap<(u64, u32), Entry>,
    nbytes: usize,
    /// The number of puts so far, including flushed ones.
    numbered: u64,
    /// The number of flushes so far.
    flushes: u64,
}

/// The buffer at one moment.
struct Snapshot {
    puts: Vec<Arc<Put>>,
    numbered: u64,
    flushes: u64,
}

impl Waiting {
    /// Add a put. Returns the put that it replaces, which the caller drops after releasing the lock.
    fn put(&mut self, keys: Keys, put: Put) -> Option<Arc<Put>> {
        self.numbered += 1;
        self.insert(Entry { keys, put: Arc::new(put), number: self.numbered })
    }

    fn insert(&mut self, entry: Entry) -> Option<Arc<Put>> {
        let hash = entry.keys.hash(0);
        self.nbytes += entry.put.nbytes;
        for nth in 0.. {
            match self.puts.entry((hash, nth)) {
                Slot::Vacant(free) => {
                    free.insert(entry);
                    return None;
                }
                Slot::Occupied(mut there) if there.get().keys.eq_at(0, &entry.keys, 0) => {
                    let old = there.insert(entry).put;
                    self.nbytes -= old.nbytes;
                    return Some(old);
                }
                Slot::Occupied(_) => {}
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
        Snapshot { puts, numbered: self.numbered, flushes: self.flushes }
    }

    /// Remove the puts that were flushed. Later puts stay buffered.
    fn remove_flushed(&mut self, flushed: &Snapshot) {
        self.flushes += 1;
        self.nbytes = 0;
        let puts = std::mem::take(&mut self.puts);
        for entry in puts.into_values().filter(|entry| entry.number > flushed.numbered) {
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
        let state = self.codec.get().parse_state(state)?;
        let nbytes = key.nbytes(py)? + state.nbytes(py)?;
        self.add(py, keys, Put { key, state: Some(state), updated_ms, deadline_ms, nbytes })
    }

    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, keys) = self.keys(py, key)?;
        let nbytes = key.nbytes(py)?;
        self.add(py, keys, Put { key, state: None, updated_ms: 0, deadline_ms: None, nbytes })
    }

    /// Flush all buffered puts, and return the map.
    fn flush(&self, py: Python<'_>) -> PyResult<Py<PyStateMap>> {
        self.flush_buffer(py)?;
        Ok(self.map.clone_ref(py))
    }
}

impl PySingleKeys {
    fn lock(&self, _py: Python<'_>) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<(Value, Keys)> {
        let codec = self.codec.get();
        let key = codec.parse_key(object)?;
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
            self.flush_buffer(py)?; // not buffered: if the map refuses it, it would block every later flush
            let changes = changes(py, self.codec.get(), &[Arc::new(put)])?;
            return self.map.get().change(py, |map| map.change(&changes));
        }
        let mut waiting = self.lock(py);
        let replaced = waiting.put(keys, put);
        let is_full = waiting.puts.len() >= MOST_WAITING || waiting.nbytes >= self.most_bytes;
        drop(waiting);
        drop(replaced);
        if is_full { self.flush_buffer(py) } else { Ok(()) }
    }

    /// Add all puts that are buffered now to the map. Columns are made without the lock, so a call from another thread,
    /// or from a `__del__` in this one, may flush the same puts first. Then the columns are stale, and the loop retries
    /// with a new snapshot.
    fn flush_buffer(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            let snapshot = self.lock(py).snapshot();
            if snapshot.puts.is_empty() {
                return Ok(());
            }
            let changes = changes(py, self.codec.get(), &snapshot.puts)?;
            let flushed = self.map.get().change_if(
                py,
                || self.lock(py).flushes == snapshot.flushes,
                |map| map.change(&changes),
                || self.lock(py).remove_flushed(&snapshot),
            )?;
            if flushed.is_some() {
                return Ok(());
            }
        }
    }
}

/// Return the changes of these puts, in no particular order, because each key occurs once.
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
