//! `SingleKeys`: puts and gets of one key at a time. Puts wait in a hash map, and are sealed into one run together.
//!
//! INVARIANT: no Python code of a user's runs while a lock is held: keys and states are parsed before, shown after.
//! INVARIANT: a seal that fails loses nothing: what waits is forgotten when the map has taken it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ArrayRef;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
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

/// Puts by the hash of their key, and by how many other keys of that hash came before it.
#[derive(Default)]
struct Waiting {
    puts: HashMap<(u64, u32), (Keys, Arc<Put>)>,
    nbytes: usize,
}

impl Waiting {
    fn put(&mut self, keys: Keys, put: Put) {
        let hash = keys.hash(0);
        self.nbytes += put.nbytes;
        for number in 0.. {
            match self.puts.entry((hash, number)) {
                Place::Vacant(free) => {
                    free.insert((keys, Arc::new(put)));
                    return;
                }
                Place::Occupied(mut there) if there.get().0.eq_at(0, &keys, 0) => {
                    self.nbytes -= there.get().1.nbytes;
                    there.get_mut().1 = Arc::new(put);
                    return;
                }
                Place::Occupied(_) => {}
            }
        }
    }

    fn get(&self, keys: &Keys) -> Option<Arc<Put>> {
        let there = (0..).map_while(|number| self.puts.get(&(keys.hash(0), number)));
        there.filter(|(other, _)| other.eq_at(0, keys, 0)).map(|(_, put)| Arc::clone(put)).next()
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
        if let Some(put) = self.lock(py).get(&keys) {
            return put.state.as_ref().map(|state| codec.state.show(py, state, &codec.zone)).transpose();
        }
        let found = self.map.get().lock_attached(py).find_one(&keys);
        let shown = |(columns, row): (Vec<ArrayRef>, usize)| {
            codec.state.decode(&codec.state.decoders(&columns), py, row, &codec.zone)
        };
        found.map(shown).transpose()
    }

    fn contains(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let keys = self.keys(py, key)?.1;
        if let Some(put) = self.lock(py).get(&keys) {
            return Ok(put.state.is_some());
        }
        let found = self.map.get().lock_attached(py).find_one(&keys);
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
        self.seal(py, &mut self.lock(py))?;
        Ok(self.map.clone_ref(py))
    }
}

impl PySingleKeys {
    /// A thread that is sealing holds the lock without the GIL: who waits for it must not hold that either.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Waiting> {
        self.waiting.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
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
        let waiting = &mut *self.lock(py);
        if put.nbytes >= self.most_bytes {
            self.seal(py, waiting)?;
            return self.change(py, &[&put]); // it never waits: what is refused would be refused for ever
        }
        waiting.put(keys, put);
        let is_full = waiting.puts.len() >= MOST_WAITING || waiting.nbytes >= self.most_bytes;
        if is_full { self.seal(py, waiting) } else { Ok(()) }
    }

    fn seal(&self, py: Python<'_>, waiting: &mut Waiting) -> PyResult<()> {
        if waiting.puts.is_empty() {
            return Ok(());
        }
        self.change(py, &waiting.puts.values().map(|(_, put)| put.as_ref()).collect::<Vec<_>>())?;
        waiting.puts.clear();
        waiting.nbytes = 0;
        Ok(())
    }

    /// Adds puts to the map, all or none.
    fn change(&self, py: Python<'_>, puts: &[&Put]) -> PyResult<()> {
        let changes = changes(py, self.codec.get(), puts)?;
        py.detach(|| self.map.get().change(&changes)).raise(py)
    }
}

/// What these puts change, in no order: a key is there once.
fn changes(py: Python<'_>, codec: &PyCodec, puts: &[&Put]) -> PyResult<Changes> {
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
