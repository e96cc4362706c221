//! A search provider for Linchpin: an embedded full-text index on [tantivy](tantivy), in a folder
//! beside the app.
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
//! # What is found
//!
//! Texts and what is searched for are cut into words: runs of letters and digits. Words are
//! compared in lower case and without accents (`Å` is `a`, `ß` is `ss`; words in other alphabets
//! keep theirs). A record fits when **every** word stands in at least one of the operation's
//! fields, the last one also as the beginning of a word, so that typing finds at once. There is no
//! language of queries: quotes, colons, stars, `AND` and the like mean nothing and cannot do
//! anything.
//!
//! Hits come by BM25 relevance, each field's multiplied by its weight. Relevance depends on the
//! whole index, other callers' records included; which of them there are is never shown.
//!
//! Words of 128 bytes and more are not indexed, and text without spaces (Chinese, Japanese) is one
//! word, which is found by its beginning.
//!
//! # The folder
//!
//! One index per entity. An index that is damaged, or whose fields have changed, is made anew from
//! the store when the app starts.
//!
//! Processes of one machine that share a database may share a folder, such as a server and the
//! commands of the app (`user`, `token`, its own). The first one keeps the index: it alone writes.
//! The others search it as it is at that moment, and what they change in the database the first one
//! is told within a fraction of a second. When it ends, another one that is still there keeps the
//! index from then on, within a second; until then changes wait in the database. `search rebuild`
//! beside a process that keeps the index is refused and says so, and so is a process whose fields
//! or whose database are others.
//!
//! Processes on several machines each take a folder of their own, and each is told every change. A
//! folder on a network drive is not for sharing.
//!
//! Changes are committed once per batch of events, with what they rest on: after a crash the index
//! goes on where it stopped.

mod best;
mod shelf;
mod words;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use linchpin::search::{Change, Hit, Opened, SearchIndex, SearchProvider, SearchQuery};
use linchpin::{BoxFuture, Error, Result};
use parking_lot::Mutex;

use shelf::Shelf;

/// Indexes in a folder, or in memory.
#[derive(Debug)]
pub struct Tantivy {
    place: Option<PathBuf>,
    shelves: Mutex<HashMap<&'static str, Arc<Shelf>>>,
}

impl Tantivy {
    /// Indexes in a folder, which is made when it is not there.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            place: Some(folder.into()),
            shelves: Mutex::default(),
        }
    }

    /// Indexes in memory, made from the store at every start: for tests, and for few records in one
    /// process.
    pub fn in_memory() -> Self {
        Self {
            place: None,
            shelves: Mutex::default(),
        }
    }

    fn shelf(&self, index: &SearchIndex) -> Result<Arc<Shelf>> {
        let shelf = self.shelves.lock().get(index.name).map(Arc::clone);
        shelf.ok_or_else(|| {
            Error::unavailable(format!("the index of `{}` is not open", index.entity))
        })
    }
}

impl SearchProvider for Tantivy {
    fn open<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Opened>> {
        Box::pin(async move {
            let (place, of) = (self.place.clone(), index.clone());
            let shelf = blocking(move || Shelf::open(place.as_deref(), &of)).await?;
            let opened = shelf.opened();
            self.shelves.lock().insert(index.name, Arc::new(shelf));
            Ok(opened)
        })
    }

    fn take_over<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Option<Opened>>> {
        Box::pin(async move {
            let (shelf, of) = (self.shelf(index)?, index.clone());
            let Some(taken) = blocking(move || shelf.take_over(&of)).await? else {
                return Ok(None);
            };
            let opened = taken.opened();
            self.shelves.lock().insert(index.name, Arc::new(taken));
            Ok(Some(opened))
        })
    }

    fn apply<'a>(
        &'a self,
        index: &'a SearchIndex,
        changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let shelf = self.shelf(index)?;
            blocking(move || shelf.apply(changes)).await
        })
    }

    fn begin<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let shelf = self.shelf(index)?;
            blocking(move || shelf.begin()).await
        })
    }

    fn finish<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let shelf = self.shelf(index)?;
            blocking(move || shelf.finish()).await
        })
    }

    fn query<'a>(
        &'a self,
        index: &'a SearchIndex,
        query: &'a SearchQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Hit>>> {
        Box::pin(async move {
            let shelf = self.shelf(index)?;
            let weight = |at: &usize| index.fields.get(*at).map(|field| (*at, field.weight));
            let fields: Vec<(usize, f32)> = query.fields.iter().filter_map(weight).collect();
            let (text, owners, after) = (
                query.text.to_owned(),
                query.owners.to_vec(),
                query.after.cloned(),
            );
            let limit = query.limit;
            blocking(move || shelf.find(&text, &fields, &owners, after.as_ref(), limit)).await
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let shelves: Vec<Arc<Shelf>> = self
                .shelves
                .lock()
                .drain()
                .map(|(_, shelf)| shelf)
                .collect();
            blocking(move || shelves.iter().try_for_each(|shelf| shelf.close())).await
        })
    }
}

/// Work on files and on large lists of words, beside the threads that serve.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // Damaged files may make it panic: that is an error as well.
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::internal(format!("the index failed: {error}"))))
}
