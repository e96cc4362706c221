//! An index: its files, its writer, and its metadata.
//!
//! The metadata is part of each commit, so it always agrees with the documents.

use std::fs::{File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linchpin::search::{Change, Document, Hit, Opened, SearchIndex};
use linchpin::{Code, Error, Result, Uuid};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tantivy::query::InvertedIndexRangeQuery;
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, TantivyError, Term};

use crate::top_hits::{ID, TopHits};
use crate::words::{self, ANALYZER};

/// The memory of a writer: one thread, twice the minimum of tantivy.
const BUDGET: usize = 30_000_000;
/// The time limit for an index that another process is creating, and the interval between two
/// checks.
const MAKING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(50));
/// Marks a directory as ours, so that no other directory is ever removed.
const MARK: &str = "linchpin-search-index";

/// An open index.
pub(crate) struct OpenIndex {
    index: Index,
    reader: IndexReader,
    fields: Fields,
    state: Mutex<State>,
    writer: Mutex<Writer>,
    /// Whether a rebuild has begun since it was opened; the old documents are searched meanwhile.
    begun: AtomicBool,
    /// The location of the index; `None` in memory.
    place: Option<Place>,
}

/// The location of an index in a directory.
#[derive(Clone, Debug)]
struct Place {
    folder: PathBuf,
    lock: PathBuf,
    /// The lock of the process that maintains the index. The other processes only read the
    /// directory.
    held: Arc<Mutex<Option<File>>>,
}

impl Place {
    fn of(folder: &Path, index: &SearchIndex) -> Self {
        let below = |kind: &str| folder.join(format!("{}.{kind}", index.name));
        Self {
            folder: below("index"),
            lock: below("lock"),
            held: Arc::default(),
        }
    }

    /// Tries to take the lock; returns whether this process maintains the index.
    fn take(&self) -> Result<bool> {
        let mut held = self.held.lock();
        if held.is_none() {
            *held = lock(&self.lock)?;
        }
        Ok(held.is_some())
    }

    fn is_kept_here(&self) -> bool {
        self.held.lock().is_some()
    }

    /// The error for an operation that is not possible while another process maintains the index,
    /// with advice.
    fn elsewhere(&self, why: &str) -> Error {
        let folder = self.folder.display();
        Error::new(
            Code::Conflict,
            format!(
                "another process keeps the index in `{folder}`, which {why}; stop that process, or give this one a folder of its own"
            ),
        )
    }
}

/// Created when needed, and dropped after a failure, because it is unusable then.
#[derive(Default)]
struct Writer(Option<IndexWriter>);

impl std::fmt::Debug for OpenIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenIndex")
            .field("state", &*self.state.lock())
            .finish_non_exhaustive()
    }
}

/// The metadata of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    /// The layout of its documents.
    layout: String,
    /// Identifies the index among all others.
    copy: String,
    /// The number of rebuilds.
    generation: u64,
    /// Whether the last rebuild was finished.
    complete: bool,
}

struct Fields {
    id: Field,
    generation: Field,
    texts: Vec<Field>,
    owners: Vec<Field>,
}

impl Fields {
    fn new(index: &SearchIndex) -> (Schema, Self) {
        let mut schema = Schema::builder();
        let words = TextFieldIndexing::default()
            .set_tokenizer(ANALYZER)
            .set_index_option(IndexRecordOption::WithFreqs);
        let words = TextOptions::default().set_indexing_options(words);
        let fields = Self {
            id: schema.add_text_field(ID, STRING | FAST),
            generation: schema.add_u64_field("generation", INDEXED),
            texts: (0..index.fields.len())
                .map(|n| schema.add_text_field(&format!("text{n}"), words.clone()))
                .collect(),
            owners: (0..index.owners.len())
                .map(|n| schema.add_text_field(&format!("owner{n}"), STRING))
                .collect(),
        };
        (schema.build(), fields)
    }

    fn document(&self, document: &Document, generation: u64) -> TantivyDocument {
        let mut out = TantivyDocument::default();
        out.add_text(self.id, &document.id);
        out.add_u64(self.generation, generation);
        for (field, text) in self.texts.iter().zip(&document.texts) {
            out.add_text(*field, text);
        }
        for (field, owner) in self.owners.iter().zip(&document.owners) {
            out.add_text(*field, owned(owner.as_deref()));
        }
        out
    }
}

/// An owner value as a term: a missing value differs from an empty value.
fn owned(owner: Option<&str>) -> String {
    owner.map_or_else(|| "-".to_owned(), |owner| format!("={owner}"))
}

/// The layout of the documents of an index; another layout needs another index.
fn layout(index: &SearchIndex) -> String {
    let fields: Vec<&str> = index.fields.iter().map(|field| field.name).collect();
    serde_json::json!([ANALYZER, fields, index.owners]).to_string()
}

impl OpenIndex {
    /// Opens the index of an entity in a directory or in memory; replaces an unusable index by an
    /// empty one. An index that another process maintains is opened for reads only.
    pub(crate) fn open(folder: Option<&Path>, index: &SearchIndex) -> Result<Self> {
        let Some(folder) = folder else {
            let (schema, _) = Fields::new(index);
            return Self::with(Index::create_in_ram(schema), index, None)
                .map_err(|error| internal(&error));
        };
        std::fs::create_dir_all(folder).map_err(|error| cannot("make", folder, &error))?;
        let place = Place::of(folder, index);
        let began = Instant::now();
        loop {
            if place.take()? {
                return Self::keep(place, index);
            }
            // Damage is handled by the process that maintains the index; here, files may appear and
            // disappear.
            let found = catch_unwind(AssertUnwindSafe(|| {
                Self::known(&place.folder, index, &place)
            }))
            .unwrap_or(Ok(Found::Nothing));
            match found {
                Ok(Found::Index(open_index)) => return Ok(*open_index),
                Ok(Found::Other) => {
                    return Err(place.elsewhere("has other fields than it has here"));
                }
                Ok(Found::Nothing) | Err(_) if began.elapsed() < MAKING.0 => {
                    std::thread::sleep(MAKING.1);
                }
                Ok(Found::Nothing) | Err(_) => {
                    return Err(place.elsewhere("is damaged, or not made yet"));
                }
            }
        }
    }

    /// Opens an index that this process maintains.
    fn keep(place: Place, index: &SearchIndex) -> Result<Self> {
        let folder = place.folder.clone();
        if folder.join(MARK).exists() {
            // Damage may also cause a panic.
            let old = catch_unwind(AssertUnwindSafe(|| Self::existing(&folder, index, &place)));
            match old {
                Ok(Ok(Some(opened))) => return Ok(opened),
                Ok(Ok(None)) => tracing::info!(
                    entity = index.entity,
                    "the fields of the search index have changed: it is rebuilt"
                ),
                Ok(Err(error)) => {
                    tracing::warn!(entity = index.entity, %error, folder = %folder.display(), "the search index is damaged: it is rebuilt");
                }
                Err(_) => {
                    tracing::warn!(entity = index.entity, folder = %folder.display(), "the search index is damaged: it is rebuilt");
                }
            }
            std::fs::remove_dir_all(&folder).map_err(|error| cannot("remove", &folder, &error))?;
        } else if std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
            let text = "it holds something else than a search index; give the app another folder, or remove it";
            return Err(cannot("use", &folder, &text));
        }
        std::fs::create_dir_all(&folder).map_err(|error| cannot("make", &folder, &error))?;
        File::create(folder.join(MARK)).map_err(|error| cannot("write into", &folder, &error))?;
        let (schema, _) = Fields::new(index);
        let made = Index::create_in_dir(&folder, schema)
            .and_then(|made| Self::with(made, index, Some(place)));
        made.map_err(|error| cannot("make an index in", &folder, &error))
    }

    /// The index in a directory, if it is intact; `None` if its documents have another layout.
    fn existing(
        folder: &Path,
        index: &SearchIndex,
        place: &Place,
    ) -> tantivy::Result<Option<Self>> {
        let damaged = Index::open_in_dir(folder)?.validate_checksum()?;
        if !damaged.is_empty() {
            return Err(TantivyError::InternalError(format!(
                "the checksums of {damaged:?} are wrong"
            )));
        }
        Ok(match Self::known(folder, index, place)? {
            Found::Index(open_index) => Some(*open_index),
            Found::Other | Found::Nothing => None,
        })
    }

    /// The index in a directory in its present state.
    fn known(folder: &Path, index: &SearchIndex, place: &Place) -> tantivy::Result<Found> {
        let old = Index::open_in_dir(folder)?;
        let Some(state) = state(&old)? else {
            return Ok(Found::Nothing);
        };
        let (schema, _) = Fields::new(index);
        if state.layout != layout(index) || old.schema() != schema {
            return Ok(Found::Other);
        }
        Self::with(old, index, Some(place.clone()))
            .map(|open_index| Found::Index(Box::new(open_index)))
    }

    fn with(index: Index, of: &SearchIndex, place: Option<Place>) -> tantivy::Result<Self> {
        index.tokenizers().register(ANALYZER, words::analyzer());
        let (_, fields) = Fields::new(of);
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()?;
        let known = state(&index)?;
        let fresh = || State {
            layout: layout(of),
            copy: Uuid::new_v7().to_string(),
            generation: 0,
            complete: false,
        };
        let state = Mutex::new(known.unwrap_or_else(fresh));
        Ok(Self {
            index,
            reader,
            fields,
            state,
            writer: Mutex::default(),
            begun: AtomicBool::new(false),
            place,
        })
    }

    pub(crate) fn opened(&self) -> Opened {
        let state = self.state.lock();
        // An index in memory belongs to one process and is rebuilt at every start: it needs no copy
        // name.
        let copy = self.place.as_ref().map(|_| state.copy.clone());
        Opened {
            complete: state.complete,
            copy,
            elsewhere: self.elsewhere().is_some(),
        }
    }

    /// The location of the index if another process maintains it.
    fn elsewhere(&self) -> Option<&Place> {
        self.place.as_ref().filter(|place| !place.is_kept_here())
    }

    /// The index, maintained by this process from now on; `None` while another process maintains
    /// it.
    pub(crate) fn take_over(&self, index: &SearchIndex) -> Result<Option<Self>> {
        match &self.place {
            Some(place) if place.take()? => {
                let taken = Self::keep(place.clone(), index)?;
                let mut state = taken.state.lock();
                if state.generation == 0 {
                    // Rebuilt. This process gets changes under the name of the previous copy.
                    state.copy.clone_from(&self.state.lock().copy);
                }
                drop(state);
                Ok(Some(taken))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn apply(&self, changes: Vec<Change>) -> Result<()> {
        let state = self.state.lock().clone();
        self.commit(state, |writer, state| {
            for change in changes {
                let id = match &change {
                    Change::Put(document) => &document.id,
                    Change::Remove(id) => id,
                };
                writer.delete_term(Term::from_field_text(self.fields.id, id));
                if let Change::Put(document) = &change {
                    writer.add_document(self.fields.document(document, state.generation))?;
                }
            }
            Ok(())
        })
    }

    pub(crate) fn begin(&self) -> Result<()> {
        let state = self.state.lock().clone();
        self.commit(
            State {
                generation: state.generation + 1,
                complete: false,
                ..state
            },
            |_, _| Ok(()),
        )?;
        self.begun.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn finish(&self) -> Result<()> {
        let state = self.state.lock().clone();
        self.commit(
            State {
                complete: true,
                ..state
            },
            |writer, state| {
                let term = |generation| Term::from_field_u64(self.fields.generation, generation);
                let earlier = (
                    std::ops::Bound::Included(term(0)),
                    std::ops::Bound::Excluded(term(state.generation)),
                );
                writer
                    .delete_query(Box::new(InvertedIndexRangeQuery::new(earlier.0, earlier.1)))
                    .map(drop)
            },
        )
    }

    /// Commits changes together with the metadata.
    fn commit(
        &self,
        state: State,
        change: impl FnOnce(&mut IndexWriter, &State) -> tantivy::Result<()>,
    ) -> Result<()> {
        if let Some(place) = self.elsewhere() {
            return Err(place.elsewhere("is written by that one alone"));
        }
        let mut writer = self.writer.lock();
        let work = || {
            if writer.0.is_none() {
                writer.0 = Some(self.index.writer_with_num_threads(1, BUDGET)?);
            }
            let Some(open) = &mut writer.0 else {
                return Ok(());
            };
            change(open, &state)?;
            let mut prepared = open.prepare_commit()?;
            prepared.set_payload(&serde_json::to_string(&state)?);
            prepared.commit()?;
            self.reader.reload()
        };
        match work() {
            Ok(()) => {
                *self.state.lock() = state;
                Ok(())
            }
            Err(error) => {
                // Uncommitted changes must not become part of the next commit.
                writer.0 = None;
                Err(internal(&error))
            }
        }
    }

    pub(crate) fn find(
        &self,
        text: &str,
        fields: &[(usize, f32)],
        owners: &[(usize, Option<String>)],
        after: Option<&Hit>,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let fields: Vec<(Field, f32)> = fields
            .iter()
            .filter_map(|(at, weight)| Some((*self.fields.texts.get(*at)?, *weight)))
            .collect();
        let Some(words) = words::words(text).filter(|_| limit > 0 && !fields.is_empty()) else {
            return Ok(Vec::new());
        };
        let owner = |(at, owner): &(usize, Option<String>)| {
            Some(Term::from_field_text(
                *self.fields.owners.get(*at)?,
                &owned(owner.as_deref()),
            ))
        };
        let query = words::query(&words, &fields, owners.iter().filter_map(owner).collect());
        if let Some(place) = self.elsewhere() {
            // The other process has made changes meanwhile.
            self.reader.reload().map_err(|error| internal(&error))?;
            if !state(&self.index)
                .map_err(|error| internal(&error))?
                .is_some_and(|state| state.complete)
            {
                return Err(Error::unavailable(format!(
                    "another process is still making the index in `{}`",
                    place.folder.display()
                )));
            }
        } else if !self.state.lock().complete && !self.begun.load(Ordering::Acquire) {
            // Taken over a moment ago from a process that had not finished the rebuild.
            return Err(Error::unavailable("the index has not been made yet"));
        }
        self.reader
            .searcher()
            .search(&query, &TopHits { limit, after })
            .map_err(|error| internal(&error))
    }

    /// Stops background work, and releases the lock of the index.
    pub(crate) fn close(&self) -> Result<()> {
        let ended = match self.writer.lock().0.take() {
            Some(writer) => writer
                .wait_merging_threads()
                .map_err(|error| internal(&error)),
            None => Ok(()),
        };
        if let Some(place) = &self.place {
            place.held.lock().take();
        }
        ended
    }
}

/// The contents of a directory.
enum Found {
    Index(Box<OpenIndex>),
    /// An index whose documents have another layout.
    Other,
    /// No index with metadata.
    Nothing,
}

/// The metadata of an index; `None` before its first commit.
fn state(index: &Index) -> tantivy::Result<Option<State>> {
    Ok(index
        .load_metas()?
        .payload
        .and_then(|text| serde_json::from_str(&text).ok()))
}

/// The lock for maintaining an index, held until the process ends; `None` if another process has
/// it.
fn lock(path: &Path) -> Result<Option<File>> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|error| cannot("lock", path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(cannot("lock", path, &error)),
    }
}

fn cannot(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("cannot {what} `{}`: {error}", path.display()))
}

fn internal(error: &TantivyError) -> Error {
    Error::internal(error.to_string())
}
