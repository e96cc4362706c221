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
const WRITER_MEMORY: usize = 30_000_000;
/// The time limit for an index that another process is creating, and the interval between two
/// checks.
const CREATION_WAIT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(50));
/// The file that marks a directory as an index, so that no other directory is ever removed.
const MARKER_FILE: &str = "linchpin-search-index";

/// An open index.
pub(crate) struct OpenIndex {
    index: Index,
    reader: IndexReader,
    fields: Fields,
    state: Mutex<State>,
    writer: Mutex<Writer>,
    /// Whether a rebuild has begun since the index was opened; the old documents are searched
    /// meanwhile.
    rebuild_begun: AtomicBool,
    /// The location of the index; `None` in memory.
    location: Option<Location>,
}

/// The location of an index in a directory.
#[derive(Clone, Debug)]
struct Location {
    folder: PathBuf,
    lock: PathBuf,
    /// The lock of the process that maintains the index. The other processes only read the
    /// directory.
    maintenance_lock: Arc<Mutex<Option<File>>>,
}

impl Location {
    fn of(folder: &Path, index: &SearchIndex) -> Self {
        let below = |kind: &str| folder.join(format!("{}.{kind}", index.name));
        Self {
            folder: below("index"),
            lock: below("lock"),
            maintenance_lock: Arc::default(),
        }
    }

    /// Tries to take the lock; returns whether this process maintains the index.
    fn take_lock(&self) -> Result<bool> {
        let mut maintenance_lock = self.maintenance_lock.lock();
        if maintenance_lock.is_none() {
            *maintenance_lock = lock(&self.lock)?;
        }
        Ok(maintenance_lock.is_some())
    }

    fn is_maintained_here(&self) -> bool {
        self.maintenance_lock.lock().is_some()
    }

    /// The error for an operation that is not possible while another process maintains the index.
    /// The message also says what to do.
    fn maintained_elsewhere(&self, why: &str) -> Error {
        let folder = self.folder.display();
        Error::new(
            Code::Conflict,
            format!(
                "another process maintains the index in `{folder}`, which {why}; stop that process, or configure another folder for this one"
            ),
        )
    }
}

/// A writer. It is created when needed, and dropped after a failure, because it is unusable then.
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
    /// The number of the rebuild that added the document.
    generation: Field,
    /// The searched fields.
    texts: Vec<Field>,
    /// The fields that restrict who finds the document, such as its tenant.
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
            out.add_text(*field, owner_term(owner.as_deref()));
        }
        out
    }
}

/// An owner value as a term: a missing value differs from an empty value.
fn owner_term(owner: Option<&str>) -> String {
    owner.map_or_else(|| "-".to_owned(), |owner| format!("={owner}"))
}

/// The layout of the documents of an index. If it changes, the index is rebuilt.
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
        let location = Location::of(folder, index);
        let began = Instant::now();
        loop {
            if location.take_lock()? {
                return Self::open_maintained(location, index);
            }
            // The process that maintains the index handles damage. It may create and remove files
            // while this process reads them.
            let found = catch_unwind(AssertUnwindSafe(|| {
                Self::open_unchecked(&location.folder, index, &location)
            }))
            .unwrap_or(Ok(Found::Nothing));
            match found {
                Ok(Found::Index(open_index)) => return Ok(*open_index),
                Ok(Found::Other) => {
                    return Err(location.maintained_elsewhere(
                        "does not have the fields that this process declares",
                    ));
                }
                Ok(Found::Nothing) | Err(_) if began.elapsed() < CREATION_WAIT.0 => {
                    std::thread::sleep(CREATION_WAIT.1);
                }
                Ok(Found::Nothing) | Err(_) => {
                    return Err(location.maintained_elsewhere("is damaged or not created yet"));
                }
            }
        }
    }

    /// Opens an index that this process maintains.
    fn open_maintained(location: Location, index: &SearchIndex) -> Result<Self> {
        let folder = location.folder.clone();
        if folder.join(MARKER_FILE).exists() {
            // Damage may also cause a panic.
            let old = catch_unwind(AssertUnwindSafe(|| {
                Self::open_checked(&folder, index, &location)
            }));
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
            let text = "the folder contains something other than a search index; configure another folder, or remove this one";
            return Err(cannot("use", &folder, &text));
        }
        std::fs::create_dir_all(&folder).map_err(|error| cannot("make", &folder, &error))?;
        File::create(folder.join(MARKER_FILE))
            .map_err(|error| cannot("write into", &folder, &error))?;
        let (schema, _) = Fields::new(index);
        let made = Index::create_in_dir(&folder, schema)
            .and_then(|made| Self::with(made, index, Some(location)));
        made.map_err(|error| cannot("make an index in", &folder, &error))
    }

    /// The index in a directory, if it is intact; `None` if its documents have another layout.
    fn open_checked(
        folder: &Path,
        index: &SearchIndex,
        location: &Location,
    ) -> tantivy::Result<Option<Self>> {
        let damaged = Index::open_in_dir(folder)?.validate_checksum()?;
        if !damaged.is_empty() {
            return Err(TantivyError::InternalError(format!(
                "the checksums of {damaged:?} are wrong"
            )));
        }
        Ok(match Self::open_unchecked(folder, index, location)? {
            Found::Index(open_index) => Some(*open_index),
            Found::Other | Found::Nothing => None,
        })
    }

    /// The index in a directory, without a check of its files.
    fn open_unchecked(
        folder: &Path,
        index: &SearchIndex,
        location: &Location,
    ) -> tantivy::Result<Found> {
        let old = Index::open_in_dir(folder)?;
        let Some(state) = state(&old)? else {
            return Ok(Found::Nothing);
        };
        let (schema, _) = Fields::new(index);
        if state.layout != layout(index) || old.schema() != schema {
            return Ok(Found::Other);
        }
        Self::with(old, index, Some(location.clone()))
            .map(|open_index| Found::Index(Box::new(open_index)))
    }

    /// Makes an open index from its files or its memory; a new index gets new metadata.
    fn with(
        index: Index,
        declared: &SearchIndex,
        location: Option<Location>,
    ) -> tantivy::Result<Self> {
        index.tokenizers().register(ANALYZER, words::analyzer());
        let (_, fields) = Fields::new(declared);
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()?;
        let stored = state(&index)?;
        let new_state = || State {
            layout: layout(declared),
            copy: Uuid::new_v7().to_string(),
            generation: 0,
            complete: false,
        };
        let state = Mutex::new(stored.unwrap_or_else(new_state));
        Ok(Self {
            index,
            reader,
            fields,
            state,
            writer: Mutex::default(),
            rebuild_begun: AtomicBool::new(false),
            location,
        })
    }

    pub(crate) fn opened(&self) -> Opened {
        let state = self.state.lock();
        // An index in memory belongs to one process and is rebuilt at every start: it needs no copy
        // name.
        let copy = self.location.as_ref().map(|_| state.copy.clone());
        Opened {
            complete: state.complete,
            copy,
            elsewhere: self.elsewhere().is_some(),
        }
    }

    /// The location of the index if another process maintains it.
    fn elsewhere(&self) -> Option<&Location> {
        self.location
            .as_ref()
            .filter(|location| !location.is_maintained_here())
    }

    /// Tries to make this process maintain the index, and returns the opened index; `None` while
    /// another process maintains it.
    pub(crate) fn take_over(&self, index: &SearchIndex) -> Result<Option<Self>> {
        match &self.location {
            Some(location) if location.take_lock()? => {
                let taken = Self::open_maintained(location.clone(), index)?;
                let mut state = taken.state.lock();
                if state.generation == 0 {
                    // The index is new. This process receives changes under the name of the
                    // previous copy.
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

    /// Begins a rebuild: documents that are added from now on belong to a new generation.
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
        self.rebuild_begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends a rebuild: removes the documents of earlier generations.
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
        if let Some(location) = self.elsewhere() {
            return Err(location.maintained_elsewhere("only that process can write"));
        }
        let mut writer = self.writer.lock();
        let work = || {
            if writer.0.is_none() {
                writer.0 = Some(self.index.writer_with_num_threads(1, WRITER_MEMORY)?);
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
                &owner_term(owner.as_deref()),
            ))
        };
        let query = words::query(&words, &fields, owners.iter().filter_map(owner).collect());
        if let Some(location) = self.elsewhere() {
            // The other process may have changed the index.
            self.reader.reload().map_err(|error| internal(&error))?;
            if !state(&self.index)
                .map_err(|error| internal(&error))?
                .is_some_and(|state| state.complete)
            {
                return Err(Error::unavailable(format!(
                    "another process is still building the index in `{}`",
                    location.folder.display()
                )));
            }
        } else if !self.state.lock().complete && !self.rebuild_begun.load(Ordering::Acquire) {
            // This process took over the index from a process that had not finished a rebuild, and
            // this process has not begun its own rebuild yet.
            return Err(Error::unavailable("the index is not built yet"));
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
        if let Some(location) = &self.location {
            location.maintenance_lock.lock().take();
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

/// Takes the lock for the maintenance of an index. The lock lasts until the returned file is
/// dropped. Returns `None` if another process has the lock.
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
