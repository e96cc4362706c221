//! Search providers: who searches an entity instead of its store.
//!
//! An entity names its provider with `search(provider = "..", fields(title = 2, body = 1))`, an app
//! registers it under that name with [`App::search_provider`](crate::App::search_provider). The
//! provider keeps an index of texts and answers which records fit, best first; it never decides who
//! may see them. What it names is read from the store under the guard of the call, and what the
//! caller cannot see is dropped: an index that is late, damaged or dishonest shows nobody anything.
//!
//! The index follows every change of a record through the outbox of the store: after a commit the
//! record is read again and what is there now is indexed, so it makes no difference how often, or
//! in which order, changes are told.

mod feed;
mod index;
mod registry;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

use std::time::Duration;

pub(crate) use index::{Find, Index};
pub(crate) use registry::{Providers, Searches};

use crate::Result;
use crate::resource::BoxFuture;

/// How long a query may take, unless the provider says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps indexes of entities and searches them.
///
/// Whatever goes wrong is an error: searches are answered `unavailable` then, or by the store where
/// the entity says `fallback`; changes are offered again. One object may serve several entities.
pub trait SearchProvider: Send + Sync + 'static {
    /// Opens the index of an entity, once, before anything else about it; makes it when it is not
    /// there.
    ///
    /// An index that cannot be used any more (damaged, or of other fields) is to be replaced by an
    /// empty one.
    ///
    /// # Errors
    /// The app does not start then; the text should tell a person what to do.
    fn open<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Opened>>;

    /// Asked about once a second of an index that another process keeps (see
    /// [`Opened::elsewhere`]): what is found once this process keeps it, because the other one has
    /// ended. `None` until then.
    ///
    /// # Errors
    /// Anything; it is asked again.
    fn take_over<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Option<Opened>>> {
        let _ = index;
        Box::pin(async { Ok(None) })
    }

    /// Makes changes, in order; success means that they last. Calls for one index never overlap.
    ///
    /// # Errors
    /// Anything; the same records are indexed again later.
    fn apply<'a>(
        &'a self,
        index: &'a SearchIndex,
        changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Begins to make the index anew, while the old one goes on answering. Until
    /// [`finish`](Self::finish) comes, also after a crash, [`open`](Self::open) answers that the
    /// index is not complete.
    ///
    /// # Errors
    /// Anything; it is tried again later.
    fn begin<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>>;

    /// Every record has been put since [`begin`](Self::begin): what was not is gone and to be
    /// forgotten.
    ///
    /// # Errors
    /// Anything; it is tried again later.
    fn finish<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>>;

    /// The records that fit best: by score, greatest first, and those of one score by id. As many
    /// as the query's `limit`, or all there are.
    ///
    /// # Errors
    /// Anything.
    fn query<'a>(
        &'a self,
        index: &'a SearchIndex,
        query: &'a SearchQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Hit>>>;

    /// How long a query may take: 5 seconds.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// Closes everything. Nothing comes after it.
    ///
    /// # Errors
    /// They are logged.
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// An index: of which entity, and what its documents hold.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchIndex {
    /// The storage name of the entity, unique within an app.
    pub name: &'static str,
    /// The entity, for texts that people read.
    pub entity: &'static str,
    /// The fields that are searched.
    pub fields: Vec<SearchField>,
    /// The fields that say whose a record is, by their names on the wire: tenant and data scopes.
    pub owners: Vec<&'static str>,
}

/// A field that is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchField {
    /// Its name on the wire.
    pub name: &'static str,
    /// How much a hit in it counts, as the entity says.
    pub weight: f32,
}

/// What a provider found when it opened an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Whether the index holds what it was told in earlier runs. One that does not is filled before
    /// it is searched.
    pub complete: bool,
    /// Tells this index from others of the same entity, where each process keeps one of its own:
    /// each is told every change then. `None` for one that processes share.
    pub copy: Option<String>,
    /// Whether another process keeps the index, and this one only searches it: nothing is put into
    /// it here, and it is not made here, until [`take_over`](SearchProvider::take_over) says so.
    /// What this process changes, the other one is told through the store that both use.
    pub elsewhere: bool,
}

/// A change of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A record as it is now, in place of what the index has under its id.
    Put(Document),
    /// There is no record of this id any more; perhaps there never was.
    Remove(String),
}

/// What is indexed of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The key of the record.
    pub id: String,
    /// One per field of the index; empty for null.
    pub texts: Vec<String>,
    /// One per owner of the index.
    pub owners: Vec<Option<String>>,
}

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub struct SearchQuery<'a> {
    /// What the client wrote, without the blanks around it: 1 to 512 characters, any of them. It is
    /// text, not a language: nothing in it may be taken for an operator.
    pub text: &'a str,
    /// Where it is searched: positions in [`SearchIndex::fields`].
    pub fields: &'a [usize],
    /// Whose records the caller can see: positions in [`SearchIndex::owners`] and values. A
    /// provider that leaves others out saves work; all others are dropped in any case.
    pub owners: &'a [(usize, Option<String>)],
    /// Only records behind this one, in the order of the answer.
    pub after: Option<&'a Hit>,
    /// Most records.
    pub limit: usize,
}

/// A record that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its key.
    pub id: String,
    /// How well it fits: a finite number, greater is better.
    pub score: f64,
}
