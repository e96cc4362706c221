//! A search provider whose index tests can read, and that can fail, hang and return wrong hits.
#![allow(missing_docs)] // a fixture

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::search::{Change, Document, Hit, Opened, SearchIndex, SearchProvider, SearchQuery};
use linchpin::{BoxFuture, Result};

/// The behaviour of the provider in its next calls.
#[derive(Clone, Debug, Default)]
pub enum Behaviour {
    #[default]
    Honest,
    Fails,
    Panics,
    /// Never answers.
    Hangs,
    /// Always returns these ids.
    Returns(Vec<String>),
    /// Returns these hits one after another, like a provider that does not know their owners.
    ReturnsInTurn(Vec<String>),
    /// Returns more unknown ids than requested.
    ReturnsTooMany,
}

#[derive(Debug, Default)]
pub(crate) struct StoredIndex {
    documents: BTreeMap<String, (u64, Document)>,
    generation: u64,
    complete: bool,
}

/// An index of words in memory; clones share it, as processes share a folder.
#[derive(Clone, Debug, Default)]
pub struct Words {
    pub(crate) indexes: Arc<Mutex<HashMap<String, StoredIndex>>>,
    pub behaviour: Arc<Mutex<Behaviour>>,
    /// Changes are refused.
    pub full: Arc<Mutex<bool>>,
    pub queries: Arc<AtomicUsize>,
    pub patience: Option<Duration>,
}

impl Words {
    pub fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// The indexed texts of an entity, by id.
    pub fn indexed(&self, index: &str) -> BTreeMap<String, String> {
        let indexes = self.indexes.lock().unwrap();
        let documents = indexes
            .get(index)
            .into_iter()
            .flat_map(|stored_index| &stored_index.documents);
        documents
            .map(|(id, (_, document))| (id.clone(), document.texts.join("|")))
            .collect()
    }

    /// Adds an entry to an index without a change of a record.
    pub fn insert_entry(&self, index: &str, id: &str, text: &str) {
        let document = Document {
            id: id.to_owned(),
            texts: vec![text.to_owned(); 2],
            owners: vec![None; 4],
        };
        self.indexes
            .lock()
            .unwrap()
            .entry(index.to_owned())
            .or_default()
            .documents
            .insert(id.to_owned(), (0, document));
    }

    /// Removes an entry from an index without a change of a record.
    pub fn remove_entry(&self, index: &str, id: &str) {
        self.indexes
            .lock()
            .unwrap()
            .entry(index.to_owned())
            .or_default()
            .documents
            .remove(id);
    }

    fn answer(&self, index: &SearchIndex, query: &SearchQuery<'_>) -> Vec<Hit> {
        let (text, indexes) = (query.text.to_lowercase(), self.indexes.lock().unwrap());
        let has_owners = |document: &Document| {
            query
                .owners
                .iter()
                .all(|(at, owner)| document.owners[*at] == *owner)
        };
        let score = |document: &Document| -> f64 {
            let hits =
                |at: &usize| document.texts[*at].to_lowercase().matches(&text).count() as f64;
            query
                .fields
                .iter()
                .map(|at| hits(at) * f64::from(index.fields[*at].weight))
                .sum()
        };
        let documents = indexes
            .get(index.name)
            .into_iter()
            .flat_map(|stored_index| stored_index.documents.values());
        let mut hits: Vec<Hit> = documents
            .filter(|(_, document)| has_owners(document))
            .map(|(_, document)| Hit {
                id: document.id.clone(),
                score: score(document),
            })
            .filter(|hit| hit.score > 0.0)
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        let is_after = |hit: &Hit| {
            query.after.is_none_or(|after| {
                hit.score < after.score
                    || (hit.score.total_cmp(&after.score).is_eq() && hit.id > after.id)
            })
        };
        hits.into_iter()
            .filter(is_after)
            .take(query.limit)
            .collect()
    }
}

impl SearchProvider for Words {
    fn open<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<Opened>> {
        let mut indexes = self.indexes.lock().unwrap();
        let stored_index = indexes.entry(index.name.to_owned()).or_default();
        let complete = stored_index.complete;
        Box::pin(async move {
            Ok(Opened {
                complete,
                ..Opened::default()
            })
        })
    }

    fn apply<'a>(
        &'a self,
        index: &'a SearchIndex,
        changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if *self.full.lock().unwrap() {
                return Err(linchpin::Error::internal("the disk is full"));
            }
            let mut indexes = self.indexes.lock().unwrap();
            let stored_index = indexes.get_mut(index.name).unwrap();
            for change in changes {
                match change {
                    Change::Put(document) => {
                        assert_eq!(
                            (document.texts.len(), document.owners.len()),
                            (index.fields.len(), index.owners.len())
                        );
                        stored_index
                            .documents
                            .insert(document.id.clone(), (stored_index.generation, document));
                    }
                    Change::Remove(id) => drop(stored_index.documents.remove(&id)),
                }
            }
            Ok(())
        })
    }

    fn begin<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut indexes = self.indexes.lock().unwrap();
            let stored_index = indexes.get_mut(index.name).unwrap();
            (stored_index.generation, stored_index.complete) = (stored_index.generation + 1, false);
            Ok(())
        })
    }

    fn finish<'a>(&'a self, index: &'a SearchIndex) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut indexes = self.indexes.lock().unwrap();
            let stored_index = indexes.get_mut(index.name).unwrap();
            let generation = stored_index.generation;
            stored_index
                .documents
                .retain(|_, (entry_generation, _)| *entry_generation == generation);
            stored_index.complete = true;
            Ok(())
        })
    }

    fn query<'a>(
        &'a self,
        index: &'a SearchIndex,
        query: &'a SearchQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Hit>>> {
        let query_number = self.queries.fetch_add(1, Ordering::SeqCst);
        let behaviour = self.behaviour.lock().unwrap().clone();
        let hits = |ids: &[String]| {
            ids.iter()
                .map(|id| Hit {
                    id: id.clone(),
                    score: 1.0,
                })
                .collect()
        };
        let answer = match behaviour {
            Behaviour::Honest => Ok(self.answer(index, query)),
            Behaviour::Fails => Err(linchpin::Error::internal("out of order")),
            Behaviour::Panics => panic!("out of order"),
            Behaviour::Hangs => return Box::pin(std::future::pending()),
            Behaviour::Returns(ids) => Ok(hits(&ids)),
            Behaviour::ReturnsInTurn(ids) => {
                let from = query.after.map_or(0, |after| {
                    ids.iter()
                        .position(|id| *id == after.id)
                        .map_or(ids.len(), |at| at + 1)
                });
                Ok(hits(&ids[from..ids.len().min(from + query.limit)]))
            }
            Behaviour::ReturnsTooMany => Ok((0..query.limit + 7)
                .map(|n| Hit {
                    id: format!("nobody-{query_number}-{n}"),
                    score: f64::NAN,
                })
                .collect()),
        };
        Box::pin(async move { answer })
    }

    fn patience(&self) -> Duration {
        self.patience.unwrap_or(Duration::from_mins(1))
    }
}

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Draft,
    Published,
}

/// A record that every caller sees.
#[entity(
    unique(slug),
    search(provider = "words", fields(title = 2, body = 1)),
    pagination(default = 2, max = 4),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Paper {
    #[field(primary, client_set, default = uuid)]
    pub id: String,
    pub slug: Option<String>,
    pub title: String,
    pub body: Option<String>,
    #[field(default = Stage::Draft)]
    pub stage: Stage,
    #[field(default = 0)]
    pub rank: i64,
}

#[operation(kind = "search", fields(title, body))]
pub const FIND: Operation<Paper>;

#[operation(kind = "search", fields(title, body), paginate)]
pub const FIND_PAGE: Operation<Paper>;

#[operation(kind = "search", fields(body))]
pub const FIND_BODY: Operation<Paper>;

#[operation(kind = "search", fields(title, body), use_search_provider = false)]
pub const FIND_HERE: Operation<Paper>;

#[operation(kind = "search", fields(title), filter = (stage == param(stage)), optional_params(stage), paginate)]
pub const FIND_IN: Operation<Paper>;

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Published, set(title = param(title)))]
pub const PUBLISH: Operation<Paper>;

#[operation(kind = "field_update", set(title))]
pub const RETITLE: Operation<Paper>;

#[operation(kind = "upsert", match(slug), set(title))]
pub const ENSURE: Operation<Paper>;

#[operation(kind = "batch", action = "update", filter = (rank == param(rank)), set(title = param(title)))]
pub const RENAME_ALL: Operation<Paper>;

#[operation(kind = "batch", action = "delete", filter = (rank == param(rank)))]
pub const CLEAR: Operation<Paper>;

#[operation(kind = "consume", filter = (slug == param(slug)), returns = "boolean")]
pub const TAKE: Operation<Paper>;

/// A record of a tenant that expires after an hour.
#[entity(
    tenant(team),
    soft_delete(gone_at),
    ttl("1h"),
    unique(slug),
    search(provider = "words", fields(text = 1)),
    pagination(default = 3, max = 2000)
)]
#[derive(Clone, Debug)]
pub struct Secret {
    #[field(primary, client_set, default = uuid)]
    pub id: String,
    #[field(private)]
    pub team: String,
    pub slug: Option<String>,
    pub text: String,
    pub gone_at: Option<Timestamp>,
}

#[operation(kind = "search", fields(text))]
pub const HUNT: Operation<Secret>;

#[operation(kind = "search", fields(text), paginate)]
pub const HUNT_PAGE: Operation<Secret>;

/// A record with an integer key that the store searches.
#[entity(search(provider = "words", fields(name = 1), fallback), pagination(default = 2, max = 4), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Leaf {
    #[field(primary)]
    pub id: i64,
    pub name: String,
}

#[operation(kind = "search", fields(name), paginate)]
pub const SEEK: Operation<Leaf>;

pub static LIBRARY: Package = package!(
    name = "library",
    entities = [
        entity(
            Paper,
            [
                FIND, FIND_PAGE, FIND_BODY, FIND_HERE, FIND_IN, PUBLISH, RETITLE, ENSURE,
                RENAME_ALL, CLEAR, TAKE
            ]
        ),
        entity(Secret, [HUNT, HUNT_PAGE]),
        entity(Leaf, [SEEK]),
    ]
);
