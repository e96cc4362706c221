//! A search provider for Linchpin: an embedded full-text index with [tantivy], in a
//! directory of the app.
//!
//! ```no_run
//! # use linchpin::prelude::*;
//! use linchpin_search_tantivy::Tantivy;
//!
//! #[entity(search(provider = "tantivy", fields(title = 2, body = 1)))]
//! #[derive(Clone, Debug)]
//! pub struct Article {
//!     #[field(primary, default = uuid)]
//!     pub id: String,
//!     pub title: String,
//!     pub body: String,
//! }
//!
//! #[operation(kind = "search", fields(title, body), paginate)]
//! pub const FIND: Operation<Article>;
//!
//! # static NEWS: Package = package!(name = "news", entities = [entity(Article, [FIND])]);
//! # async fn start() -> linchpin::Result<()> {
//! App::new(Config::from_env()?)
//!     .plugin(JwtAuth::new())
//!     .package(&NEWS)
//!     .search_provider("tantivy", Tantivy::in_folder("search"))
//!     .run()
//!     .await
//! # }
//! ```
//!
//! # Matching
//!
//! Texts and search texts are split into words: sequences of letters and digits. Words are compared
//! in lower case and without accents (`Å` equals `a`, `ß` equals `ss`; letters of other alphabets
//! keep their marks). A record matches if **every** search word is in at least one of the
//! operation's fields. The last search word may also be the beginning of a word, for search while
//! typing. There is no query language: quotes, colons, stars, `AND` and similar have no special
//! meaning.
//!
//! Hits are ordered by BM25 relevance; the relevance of each field is multiplied by its weight. The
//! relevance depends on the whole index, including records of other callers, but it never reveals
//! these records.
//!
//! Words of 128 bytes or more are not indexed. Text without spaces (Chinese, Japanese) counts as
//! one word, which is found by its beginning.
//!
//! # The directory
//!
//! Each entity has its own index. An index that is damaged, or whose fields have changed, is
//! rebuilt from the store when the app starts.
//!
//! Processes of one machine that share a database may share a directory, for example a server and
//! its commands (`user`, `token` and the commands that the app adds). The first process maintains
//! the index: only that process writes. The others search the current index; the first process gets
//! their database changes within a fraction of a second. When it ends, another running process
//! takes over within a second; until then changes wait in the database. While another process
//! maintains the index, `search rebuild` is refused with an explanation. The start of a process
//! with other searched fields or with another database is refused in the same way.
//!
//! Each machine needs its own directory, whose index gets every change. Do not share a directory on
//! a network drive.
//!
//! Each group of changes is one commit of the index. The database records which events the index
//! contains, so after a crash the index continues with the next event.

mod open_index;
mod top_hits;
mod words;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use linchpin::search::{Change, Hit, Opened, SearchIndex, SearchProvider, SearchQuery};
use linchpin::{BoxFuture, Error, Result};
use parking_lot::Mutex;

use open_index::OpenIndex;

/// A search provider with indexes in a directory or in memory.
#[derive(Debug)]
pub struct Tantivy {
    location: Option<PathBuf>,
    indexes: Mutex<HashMap<&'static str, Arc<OpenIndex>>>,
}

impl Tantivy {
    /// Stores indexes in a directory, which is created if it does not exist.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            location: Some(folder.into()),
            indexes: Mutex::default(),
        }
    }

    /// Stores indexes in memory and builds them at every start: for tests, and for few records in a
    /// single process.
    pub fn in_memory() -> Self {
        Self {
            location: None,
            indexes: Mutex::default(),
        }
    }

    fn open_index(&self, index: &SearchIndex) -> Result<Arc<OpenIndex>> {
        let open_index = self.indexes.lock().get(index.name).map(Arc::clone);
        open_index.ok_or_else(|| {
            Error::unavailable(format!("the index of `{}` is not open", index.entity))
        })
    }
}

impl SearchProvider for Tantivy {
    fn open<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Opened>> {
        Box::pin(async move {
            let (location, declared) = (self.location.clone(), index.clone());
            let open_index =
                blocking(move || OpenIndex::open(location.as_deref(), &declared)).await?;
            let opened = open_index.opened();
            self.indexes.lock().insert(index.name, Arc::new(open_index));
            Ok(opened)
        })
    }

    fn take_over<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Option<Opened>>> {
        Box::pin(async move {
            let (open_index, declared) = (self.open_index(index)?, index.clone());
            let Some(taken) = blocking(move || open_index.take_over(&declared)).await? else {
                return Ok(None);
            };
            let opened = taken.opened();
            self.indexes.lock().insert(index.name, Arc::new(taken));
            Ok(Some(opened))
        })
    }

    fn apply<'a>(
        &'a self,
        index: &'a SearchIndex,
        changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let open_index = self.open_index(index)?;
            blocking(move || open_index.apply(changes)).await
        })
    }

    fn begin<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let open_index = self.open_index(index)?;
            blocking(move || open_index.begin()).await
        })
    }

    fn finish<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let open_index = self.open_index(index)?;
            blocking(move || open_index.finish()).await
        })
    }

    fn query<'a>(
        &'a self,
        index: &'a SearchIndex,
        query: &'a SearchQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Hit>>> {
        Box::pin(async move {
            let open_index = self.open_index(index)?;
            let weight = |at: &usize| index.fields.get(*at).map(|field| (*at, field.weight));
            let fields: Vec<(usize, f32)> = query.fields.iter().filter_map(weight).collect();
            let (text, owners, after) = (
                query.text.to_owned(),
                query.owners.to_vec(),
                query.after.cloned(),
            );
            let limit = query.limit;
            blocking(move || open_index.find(&text, &fields, &owners, after.as_ref(), limit)).await
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let indexes: Vec<Arc<OpenIndex>> = self
                .indexes
                .lock()
                .drain()
                .map(|(_, open_index)| open_index)
                .collect();
            blocking(move || indexes.iter().try_for_each(|open_index| open_index.close())).await
        })
    }
}

/// Runs file access and processing of large word lists outside of the server threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // Damaged files may cause a panic, which becomes an error.
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::internal(format!("the index failed: {error}"))))
}
