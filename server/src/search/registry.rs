//! Start-up: which provider serves which entity, and what is still missing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::feed::Feed;
use super::index::{Index, cause, guarded};
use super::{Opened, SearchProvider};
use crate::EntityEntry;
use crate::clock::Clock;
use crate::event::Consumer;
use crate::resource::Table;
use crate::store::Store;
use crate::{Error, Result};

/// How often it is asked whether the process has ended that keeps an index.
const LOOK: Duration = Duration::from_secs(1);
/// How often, and after which pause, the store is asked for the consumer of an index that another
/// process has just opened.
const ASKED: (usize, Duration) = (20, Duration::from_millis(250));
/// The first pause after an index could not be made, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

/// Providers by name, as the app and its plugins register them.
#[derive(Default)]
pub(crate) struct Providers(Vec<(String, Arc<dyn SearchProvider>)>);

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl Providers {
    pub(crate) fn add(&mut self, name: String, provider: Arc<dyn SearchProvider>) {
        self.0.push((name, provider));
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Everything that is wrong with the names.
    fn problems(&self, entries: &[&EntityEntry]) -> Vec<String> {
        let names = || self.0.iter().map(|(name, _)| name.as_str());
        let mut problems = Vec::new();
        for (n, name) in names().enumerate() {
            if names().take(n).any(|other| other == name) {
                problems.push(format!(
                    "two search providers are named `{name}`: each needs a name of its own"
                ));
            }
        }
        for entry in entries {
            let Some(search) = &entry.desc.search else {
                continue;
            };
            if names().any(|name| name == search.provider) {
                continue;
            }
            let users = entry.mounted().filter(|spec| spec.kind.uses_provider());
            let users: Vec<String> = users
                .map(|spec| format!("operation `{}` ({})", spec.name, spec.at))
                .collect();
            let needed = if users.is_empty() {
                String::new()
            } else {
                format!(", needed by {}", users.join(" and "))
            };
            problems.push(format!(
                "entity `{}` ({}) is searched by provider `{}`, which nobody registers{needed}{}\nhelp: `App::search_provider(\"{}\", ..)`",
                entry.desc.name,
                entry.desc.at,
                search.provider,
                crate::suggest::did_you_mean(search.provider, names()),
                search.provider,
            ));
        }
        problems
    }
}

/// The indexes of an app.
#[derive(Default)]
pub(crate) struct Searches {
    indexes: Vec<(Arc<Index>, Arc<Table>)>,
    /// Those that have to be made before they are searched.
    missing: Vec<(Arc<Index>, Arc<Table>)>,
    /// Those that other processes keep, with the names by which these are told of changes.
    elsewhere: Vec<(Arc<Index>, Arc<Table>, Option<String>)>,
}

impl Searches {
    /// Opens the index of every entity that has one; answers the consumers that keep them. What was
    /// opened is in `self` even when something fails, to be closed.
    ///
    /// # Errors
    /// Names that nobody registers, all at once; or an index cannot be opened.
    pub(crate) async fn open(
        &mut self,
        providers: Providers,
        entries: &[&EntityEntry],
        tables: &[Arc<Table>],
        store: &Arc<dyn Store>,
        clock: &Clock,
    ) -> Result<Vec<Consumer>> {
        let problems = providers.problems(entries);
        if !problems.is_empty() {
            return Err(crate::startup::startup(problems.join("\n")));
        }
        let mut consumers = Vec::new();
        for table in tables {
            let Some(desc) = &table.desc.search else {
                continue;
            };
            let Some((_, provider)) = providers.0.iter().find(|(name, _)| name == desc.provider)
            else {
                continue;
            };
            let index = Arc::new(Index::new(
                table.desc,
                desc,
                Arc::clone(provider),
                Arc::clone(clock),
            ));
            self.indexes.push((Arc::clone(&index), Arc::clone(table)));
            let opened = guarded(|| provider.open(index.spec())).await;
            let Opened {
                complete,
                copy,
                elsewhere,
            } = opened.map_err(|error| {
                let (entity, cause) = (table.desc.name, cause(&error));
                crate::startup::startup(format!(
                    "search provider `{}` cannot open the index of `{entity}`: {cause}",
                    desc.provider
                ))
            })?;
            let own = copy
                .as_ref()
                .map_or_else(String::new, |copy| format!(".{copy}"));
            let name = format!("linchpin.search.{}{own}", table.desc.storage_name);
            // What has no name of its own may be kept by several processes, each of which is told
            // of every change by the same consumer: a command would take changes away from a
            // server.
            let in_commands = copy.is_some();
            // An index that is complete has to go on where it stopped. A store that does not know
            // where that was, because it is another one, has records that the index was never told
            // of.
            let known = async || match store.outbox() {
                Some(outbox) => outbox.knows(&name).await,
                None => Ok(false),
            };
            if elsewhere {
                // Noted by the other process, a moment after it has opened the index.
                let mut asked = 0;
                while !known().await? {
                    asked += 1;
                    if asked == ASKED.0 {
                        let (entity, provider) = (table.desc.name, desc.provider);
                        return Err(crate::startup::startup(format!(
                            "search provider `{provider}` cannot open the index of `{entity}`: another process keeps it, for another \
                             database; give each an index of its own"
                        )));
                    }
                    tokio::time::sleep(ASKED.1).await;
                }
                index.set_kept_here(false);
                // The provider knows whether the other one has made it.
                index.set_ready();
                self.elsewhere
                    .push((Arc::clone(&index), Arc::clone(table), copy));
            } else if complete && known().await? {
                index.set_ready();
            } else {
                self.missing.push((Arc::clone(&index), Arc::clone(table)));
            }
            table.set_search(Arc::clone(&index));
            let sink = Arc::new(Feed {
                index,
                table: Arc::clone(table),
            });
            consumers.push(Consumer {
                in_commands,
                ..Consumer::new(name, sink, Some(table.desc.storage_name))
            });
        }
        Ok(consumers)
    }

    /// Makes what is missing, as far as that is quickly done: a small index is whole before the app
    /// serves. A task makes the rest, as often as it takes; searches are `unavailable` until then,
    /// or the store's.
    pub(crate) async fn make(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let mut left = Vec::new();
        for (index, table) in std::mem::take(&mut self.missing) {
            let first = async {
                let mut rebuild = index.start(&table).await?;
                rebuild.step().await
            };
            match first.await {
                Ok(false) => {}
                Ok(true) => left.push((Arc::clone(&index), table)),
                Err(error) => {
                    warn(&index, &error);
                    left.push((Arc::clone(&index), table));
                }
            }
        }
        let elsewhere = std::mem::take(&mut self.elsewhere);
        if left.is_empty() && elsewhere.is_empty() {
            return None;
        }
        Some(tokio::spawn(async move {
            let elsewhere = join_all(
                elsewhere
                    .into_iter()
                    .map(|(index, table, known)| take_over(index, table, known)),
            );
            tokio::join!(finish(left), elsewhere);
        }))
    }

    /// Closes the providers, each once.
    pub(crate) async fn close(&self) {
        let mut closed: Vec<&Arc<dyn SearchProvider>> = Vec::new();
        for (index, _) in &self.indexes {
            if closed
                .iter()
                .any(|other| Arc::ptr_eq(other, index.provider()))
            {
                continue;
            }
            closed.push(index.provider());
            if let Err(error) = guarded(|| index.provider().close()).await {
                tracing::error!(
                    entity = index.spec().entity,
                    cause = cause(&error),
                    "a search provider could not be closed"
                );
            }
        }
    }
}

/// Makes indexes, as often as it takes.
async fn finish(mut left: Vec<(Arc<Index>, Arc<Table>)>) {
    let mut pause = FIRST;
    while !left.is_empty() {
        let mut failed = Vec::new();
        for (index, table) in left {
            if let Err(error) = index.rebuild(&table).await {
                warn(&index, &error);
                failed.push((index, table));
            }
        }
        left = failed;
        if !left.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }
}

/// Waits for the end of the process that keeps an index, and keeps it from then on.
async fn take_over(index: Arc<Index>, table: Arc<Table>, known: Option<String>) {
    loop {
        tokio::time::sleep(LOOK).await;
        match guarded(|| index.provider().take_over(index.spec())).await {
            Ok(Some(Opened { complete, copy, .. })) => {
                // One that was made meanwhile has had other changes.
                let whole = complete && copy == known;
                if !whole {
                    index.set_unready();
                }
                index.set_kept_here(true);
                tracing::info!(
                    entity = index.spec().entity,
                    "the process that kept the search index has ended: this one keeps it now"
                );
                if !whole {
                    finish(vec![(index, table)]).await;
                }
                return;
            }
            Ok(None) => {}
            Err(error) => warn(&index, &error),
        }
    }
}

fn warn(index: &Index, error: &Error) {
    tracing::warn!(
        entity = index.spec().entity,
        cause = cause(error),
        "the search index could not be made; it is tried again"
    );
}
