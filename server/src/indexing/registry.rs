//! Start-up of search: the provider of each entity, and indexes that must be built.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::feed::Feed;
use crate::EntityEntry;
use crate::clock::Clock;
use crate::event::Consumer;
use crate::resource::Table;
use crate::search::index::{Index, cause, guarded};
use crate::search::{Opened, SearchProvider};
use crate::store::Store;
use crate::{Error, Result};

/// The interval of checks whether the process that maintains an index has ended.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The number of lookups of the consumer of an index that another process has just opened, and the
/// pause between two lookups.
const CONSUMER_LOOKUPS: (usize, Duration) = (20, Duration::from_millis(250));
/// The first and the longest pause after a failed rebuild.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(1);

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

    /// Error messages for duplicate names of providers, and for entities whose provider is not
    /// registered.
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
                "entity `{}` ({}) is searched by provider `{}`, which is not registered{needed}{}\nhelp: `App::search_provider(\"{}\", ..)`",
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
    /// Indexes that must be built before they are searched.
    missing: Vec<(Arc<Index>, Arc<Table>)>,
    /// Indexes that other processes maintain, with the names of the consumers that feed them.
    elsewhere: Vec<(Arc<Index>, Arc<Table>, Option<String>)>,
}

impl Searches {
    /// Opens the index of every entity that has one; returns the consumers that feed the indexes.
    /// On failure, `self` contains the indexes that are already open, to be closed.
    ///
    /// # Errors
    /// All names that are not registered; or an index that cannot be opened.
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
            // Several processes may maintain an index whose `copy` is `None`, and one consumer gets
            // the changes for all of them. So a command would take changes away from a server.
            let in_commands = copy.is_some();
            // A complete index continues at its position in the outbox. A store that lacks this
            // position is another store, whose records were never indexed.
            let known = async || match store.outbox() {
                Some(outbox) => outbox.knows(&name).await,
                None => Ok(false),
            };
            if elsewhere {
                // The other process stores the position shortly after it opens the index.
                let mut lookups = 0;
                while !known().await? {
                    lookups += 1;
                    if lookups == CONSUMER_LOOKUPS.0 {
                        let (entity, provider) = (table.desc.name, desc.provider);
                        return Err(crate::startup::startup(format!(
                            "search provider `{provider}` cannot open the index of `{entity}`: another process maintains it for another \
                             database; give each an index of its own"
                        )));
                    }
                    tokio::time::sleep(CONSUMER_LOOKUPS.1).await;
                }
                index.set_kept_here(false);
                // The other process builds the index; the provider knows whether it is complete.
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

    /// Builds incomplete indexes for a short time: a small index is complete before the app serves.
    /// A task builds the rest and retries on failure; until then searches return `unavailable` or
    /// use the store.
    pub(crate) async fn build_incomplete(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let mut incomplete = Vec::new();
        for (index, table) in std::mem::take(&mut self.missing) {
            let first = async {
                let mut rebuild = index.start(&table).await?;
                rebuild.step().await
            };
            match first.await {
                Ok(false) => {}
                Ok(true) => incomplete.push((Arc::clone(&index), table)),
                Err(error) => {
                    warn(&index, &error);
                    incomplete.push((Arc::clone(&index), table));
                }
            }
        }
        let elsewhere = std::mem::take(&mut self.elsewhere);
        if incomplete.is_empty() && elsewhere.is_empty() {
            return None;
        }
        Some(tokio::spawn(async move {
            let elsewhere = join_all(
                elsewhere
                    .into_iter()
                    .map(|(index, table, known)| take_over(index, table, known)),
            );
            tokio::join!(finish(incomplete), elsewhere);
        }))
    }

    /// Closes each provider once.
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

/// Builds indexes, with retries.
async fn finish(mut incomplete: Vec<(Arc<Index>, Arc<Table>)>) {
    let mut pause = FIRST_PAUSE;
    while !incomplete.is_empty() {
        let mut failed = Vec::new();
        for (index, table) in incomplete {
            if let Err(error) = index.rebuild(&table).await {
                warn(&index, &error);
                failed.push((index, table));
            }
        }
        incomplete = failed;
        if !incomplete.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// Waits for the end of the process that maintains an index, then maintains it.
async fn take_over(index: Arc<Index>, table: Arc<Table>, known: Option<String>) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        match guarded(|| index.provider().take_over(index.spec())).await {
            Ok(Some(Opened { complete, copy, .. })) => {
                // If `copy` differs from `known`, the index is another copy: it was rebuilt in the
                // meantime, and has received other changes.
                let is_current = complete && copy == known;
                if !is_current {
                    index.set_unready();
                }
                index.set_kept_here(true);
                tracing::info!(
                    entity = index.spec().entity,
                    "the process that maintained the search index has ended; this process maintains it now"
                );
                if !is_current {
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
        "the search index could not be built; the app tries again"
    );
}
