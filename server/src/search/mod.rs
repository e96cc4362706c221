//! Search providers: external indexes that search an entity instead of its store.
//!
//! An entity selects its provider with `search(provider = "..", fields(title = 2, body = 1))`. The
//! app registers the provider under that name with
//! [`App::search_provider`](crate::App::search_provider). The provider keeps an index of texts and
//! returns the matching records, best first. It does not decide which records the caller may see:
//! the records are read from the store with the row-level filters of the call, and invisible
//! records are dropped. So an index that is late, damaged or malicious reveals nothing.
//!
//! The index follows every change of a record through the outbox of the store. After a commit the
//! record is read again and its current state is indexed, so changes may arrive several times and
//! in any order.

pub(crate) mod index;

use std::time::Duration;

pub(crate) use index::{Find, Index};

use crate::{BoxFuture, Result};

/// The default time limit of a query.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maintains indexes of entities and searches them.
///
/// Every failure is an error. A search then returns `unavailable`, or the store searches if the
/// entity declares `fallback`. Changes are delivered again. One provider may serve several
/// entities.
pub trait SearchProvider: Send + Sync + 'static {
    /// Opens the index of an entity; creates it if it does not exist. This is the first call for
    /// each index and happens once.
    ///
    /// Replace an unusable index (damaged, or with other fields) by an empty one.
    ///
    /// # Errors
    /// The app does not start; the message should tell the operator what to do.
    fn open<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Opened>>;

    /// Tries to take over an index that another process maintains (see [`Opened::elsewhere`]).
    /// Called about once a second. Returns `None` while the other process runs. After it has ended,
    /// this process maintains the index; then the state of the index is returned.
    ///
    /// # Errors
    /// Any error; the call is repeated.
    fn take_over<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Option<Opened>>> {
        let _ = index;
        Box::pin(async { Ok(None) })
    }

    /// Applies changes in order. Success means that they are durable. Calls for one index never
    /// overlap.
    ///
    /// # Errors
    /// Any error; the same records are indexed again later.
    fn apply<'a>(
        &'a self,
        index: &'a SearchIndex,
        changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Starts a rebuild of the index; meanwhile the old index is still searched. Until
    /// [`finish`](Self::finish) is called, even after a crash, [`open`](Self::open) reports the
    /// index as not complete.
    ///
    /// # Errors
    /// Any error; the call is repeated later.
    fn begin<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>>;

    /// Ends a rebuild: every record has been put since [`begin`](Self::begin). Documents that were
    /// not put belong to deleted records; remove them.
    ///
    /// # Errors
    /// Any error; the call is repeated later.
    fn finish<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>>;

    /// Returns the best matches: by score in descending order, then by id. Returns `query.limit`
    /// matches, or all matches if there are fewer.
    ///
    /// # Errors
    /// Any error.
    fn query<'a>(
        &'a self,
        index: &'a SearchIndex,
        query: &'a SearchQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Hit>>>;

    /// The time limit of a query; 5 seconds by default.
    fn patience(&self) -> Duration {
        DEFAULT_TIMEOUT
    }

    /// Closes the provider. No call follows.
    ///
    /// # Errors
    /// Errors are logged.
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// An index: its entity, and the contents of its documents.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchIndex {
    /// The storage name of the entity, unique within an app.
    pub name: &'static str,
    /// The name of the entity, for messages.
    pub entity: &'static str,
    /// The fields that are searched.
    pub fields: Vec<SearchField>,
    /// The fields of tenant and data scopes, which identify the owner of a record, by their wire
    /// names.
    pub owners: Vec<&'static str>,
}

/// A field that is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchField {
    /// The name of the field in JSON.
    pub name: &'static str,
    /// The weight of a match in this field, as the entity declares it.
    pub weight: f32,
}

/// The state of an index when a provider opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Whether the index contains the changes of earlier runs. If not, it is rebuilt before it is
    /// searched.
    pub complete: bool,
    /// Identifies this copy of the index if each process keeps its own; each copy then gets every
    /// change. `None` for an index that processes share.
    pub copy: Option<String>,
    /// Whether another process maintains the index and this one only searches it. This process
    /// neither writes nor rebuilds the index until [`take_over`](SearchProvider::take_over)
    /// succeeds. The other process gets the changes of this process through the shared store.
    pub elsewhere: bool,
}

/// A change of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The current state of a record; it replaces the document with the same id.
    Put(Document),
    /// A record with this id does not exist; it may never have existed.
    Remove(String),
}

/// The indexed contents of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The key of the record.
    pub id: String,
    /// One text per field of the index; empty for null.
    pub texts: Vec<String>,
    /// One value per owner field of the index.
    pub owners: Vec<Option<String>>,
}

/// A search query.
#[derive(Clone, Copy, Debug)]
pub struct SearchQuery<'a> {
    /// The text from the client, without surrounding white space: 1 to 512 characters of any kind.
    /// It is plain text: treat nothing in it as an operator.
    pub text: &'a str,
    /// The fields to search: positions in [`SearchIndex::fields`].
    pub fields: &'a [usize],
    /// The owner values that the caller can see: positions in [`SearchIndex::owners`] and values. A
    /// provider may leave out other records, to save work. They are dropped in any case.
    pub owners: &'a [(usize, Option<String>)],
    /// Return only records that follow this one in the order of the results.
    pub after: Option<&'a Hit>,
    /// The maximum number of records.
    pub limit: usize,
}

/// A matching record.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The key of the record.
    pub id: String,
    /// The score of the match: a finite number; greater is better.
    pub score: f64,
}
