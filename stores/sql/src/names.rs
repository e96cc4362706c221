//! Statements with the current names of tables and columns, which a migration may change at run
//! time.
//!
//! A statement is rendered with the current names, and rendered again after they have changed. The
//! check costs one atomic load per call.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use linchpin_core::entity::{EntityDesc, FieldDesc};
use linchpin_core::schema::check_name;
use linchpin_core::store::{Filler, Names, Pending, RefreshNames, Replaced, TableNames};
use linchpin_core::{Error, Result};

use crate::replaced::ReplacedField;

/// The names with which a statement is rendered.
#[derive(Debug, Default)]
pub struct Naming {
    generation: u64,
    names: Arc<Names>,
    /// Whether the database did not find an index that a statement named.
    without_hints: bool,
}

impl Naming {
    /// The generation of the names: it grows with each change of the names.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The current names of an entity, if they may differ from the declared ones.
    fn of(&self, entity: &EntityDesc) -> Option<&TableNames> {
        // Names rarely differ from the declared ones.
        if self.names.tables.is_empty() {
            return None;
        }
        self.names.of(entity.storage_name)
    }

    /// The table of an entity.
    pub fn table<'a>(&'a self, entity: &EntityDesc) -> &'a str {
        self.of(entity)
            .map_or(entity.storage_name, |names| &names.table)
    }

    /// The column of a field.
    pub fn column<'a>(&'a self, entity: &EntityDesc, field: &FieldDesc) -> &'a str {
        self.of(entity)
            .and_then(|names| names.columns.get(field.name))
            .map_or(field.column, String::as_str)
    }

    /// The column of a field, by the name of the field.
    ///
    /// # Errors
    /// `internal` if there is no such field, `schema_pending` if the field also has an earlier
    /// column: see [`refuse_replaced`](Self::refuse_replaced).
    pub fn column_named<'a>(&'a self, entity: &EntityDesc, field: &str) -> Result<&'a str> {
        let has_name = |f: &&FieldDesc| f.name == field;
        let Some(field) = entity.fields.iter().find(has_name) else {
            return Err(Error::internal(format!(
                "`{{column:{field}}}` uses an unknown field of `{}`",
                entity.name
            )));
        };
        self.refuse_replaced(entity, field)?;
        Ok(self.column(entity, field))
    }

    /// The earlier column of a field whose type has changed, while binaries with the earlier type
    /// may still run.
    pub fn replaced(&self, entity: &EntityDesc, field: &FieldDesc) -> Option<&Replaced> {
        self.of(entity)?.replaced.get(field.name)
    }

    /// The fields with an earlier column, in the order of the fields.
    pub fn replaced_fields(&self, entity: &'static EntityDesc) -> Box<[ReplacedField]> {
        match self.of(entity) {
            Some(names) if !names.replaced.is_empty() => {
                ReplacedField::all(entity, &names.replaced)
            }
            _ => Box::default(),
        }
    }

    /// Refuses to compare, sort or compute by a field with an earlier column. For some records only
    /// a conversion function of the app can compute its value, not the database.
    ///
    /// # Errors
    /// `schema_pending`.
    pub fn refuse_replaced(&self, entity: &EntityDesc, field: &FieldDesc) -> Result<()> {
        if self.replaced(entity, field).is_none() {
            return Ok(());
        }
        Err(Error::schema_pending(format!(
            "a statement compares or computes `{}` of `{}`, whose values are in two columns until \
             its migration is finished",
            field.name, entity.name
        )))
    }

    /// The columns that belong to no field, but need a value in new records.
    pub fn fillers(&self, entity: &EntityDesc) -> &[Filler] {
        self.of(entity).map_or(&[], |names| &names.fillers)
    }

    /// Whether statements may name the indexes of an entity. While a migration renames its table or
    /// its columns, its indexes may still have their earlier names.
    pub fn knows_indexes(&self, entity: &EntityDesc) -> bool {
        // A field with an earlier column has no index.
        let same = |names: &TableNames| {
            let mut columns = names.columns.keys();
            names.table == entity.storage_name
                && columns.all(|field| names.replaced.contains_key(field))
        };
        !self.without_hints && self.of(entity).is_none_or(same)
    }

    /// The wire name of the field that is stored in a column.
    pub fn wire(&self, entity: &EntityDesc, column: &str) -> Option<&'static str> {
        let field = entity
            .fields
            .iter()
            .find(|field| self.column(entity, field) == column)?;
        Some(field.wire)
    }

    /// Whether the constraint of a column still refuses values that the declaration allows.
    pub fn is_pending(&self, entity: &EntityDesc, column: &str) -> bool {
        self.pending(entity, column).is_some()
    }

    /// The values that a column accepts, if its constraint still refuses values that the
    /// declaration allows.
    pub fn pending(&self, entity: &EntityDesc, column: &str) -> Option<&Pending> {
        let mut all = self.of(entity)?.pending.iter();
        all.find(|pending| pending.column == column)
    }

    /// Whether a `CHECK` constraint belongs to a column that still refuses values that the
    /// declaration allows. `check` is the name of the constraint, or its text if it has no name.
    pub fn is_pending_check(&self, entity: &EntityDesc, check: &str) -> bool {
        let Some(names) = self.of(entity) else {
            return false;
        };
        let is_of = |pending: &Pending| {
            let column = &pending.column;
            check == check_name(&names.table, column)
                || check == check_name(entity.storage_name, column)
                || check.contains(&format!("\"{column}\""))
        };
        names.pending.iter().any(is_of)
    }
}

/// The current names of a store.
#[derive(Default)]
pub struct PresentNames {
    generation: AtomicU64,
    naming: RwLock<Arc<Naming>>,
    /// Whether the names have ever differed from the declared ones. If so, they may change again.
    watched: AtomicBool,
    refresh: RwLock<Option<RefreshNames>>,
    /// Held while the names are read again.
    turn: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for PresentNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PresentNames")
            .field("naming", &*self.naming.read())
            .finish_non_exhaustive()
    }
}

impl PresentNames {
    /// The names for a rendering.
    pub fn naming(&self) -> Arc<Naming> {
        Arc::clone(&self.naming.read())
    }

    /// The generation of the current names.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the names may change during a statement. Its arguments are then kept for a second
    /// run.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Sets the names. Names of an epoch before the current one are ignored.
    pub fn set(&self, names: Arc<Names>) {
        let mut naming = self.naming.write();
        if names.epoch < naming.names.epoch {
            return;
        }
        let hints_return = naming.without_hints && names.epoch > naming.names.epoch;
        if naming.names.tables == names.tables && !hints_return {
            *naming = Arc::new(Naming {
                names,
                generation: naming.generation,
                without_hints: naming.without_hints,
            });
            return;
        }
        self.watched.store(true, Ordering::Relaxed);
        self.replace(&mut naming, names, false);
    }

    /// Sets the function that reads the names again.
    pub fn on_stale(&self, refresh: RefreshNames) {
        *self.refresh.write() = Some(refresh);
    }

    /// Removes index hints from all statements, after the database did not find an index. Does
    /// nothing if the failed statement was rendered for another generation.
    pub fn without_hints(&self, generation: u64) {
        let mut naming = self.naming.write();
        if naming.generation == generation && !naming.without_hints {
            let names = Arc::clone(&naming.names);
            self.replace(&mut naming, names, true);
        }
    }

    fn replace(&self, naming: &mut Arc<Naming>, names: Arc<Names>, without_hints: bool) {
        let generation = naming.generation + 1;
        *naming = Arc::new(Naming {
            generation,
            names,
            without_hints,
        });
        self.generation.store(generation, Ordering::Release);
    }

    /// Reads the names again after a statement of this generation failed because of them. Returns
    /// whether the names have changed since then. Concurrent callers share one read.
    ///
    /// # Errors
    /// The error of the read.
    pub async fn refreshed(&self, generation: u64) -> Result<bool> {
        let Some(refresh) = self.refresh.read().clone() else {
            return Ok(self.generation() != generation);
        };
        if self.generation() == generation {
            let _turn = self.turn.lock().await;
            if self.generation() == generation {
                refresh().await?;
            }
        }
        Ok(self.generation() != generation)
    }

    /// The error of a statement within a transaction that failed because of names: `schema_pending`
    /// if the names have changed, else the error itself.
    pub async fn within_transaction(&self, error: Error, generation: u64) -> Error {
        match self.refreshed(generation).await {
            // The framework retries transactions that it has started.
            Ok(true) => Error::schema_pending(error).conflicting_write(),
            Ok(false) | Err(_) => error,
        }
    }
}

/// A statement that a store has prepared, in one form for each change of the names.
#[derive(Debug)]
pub struct Prepared<T> {
    present: Arc<PresentNames>,
    first: Form<T>,
}

/// The form of a statement for one generation of names, and a link to the next form. Names change
/// only a few times in a process, so forms are kept as long as the statement.
#[derive(Debug)]
struct Form<T> {
    generation: u64,
    native: T,
    next: OnceLock<Box<Self>>,
}

impl<T> Prepared<T> {
    /// Renders a statement with the current names.
    ///
    /// # Errors
    /// The error of `render`.
    pub fn new(
        present: &Arc<PresentNames>,
        render: impl FnOnce(&Arc<Naming>) -> Result<T>,
    ) -> Result<Self> {
        let naming = present.naming();
        Ok(Self {
            present: Arc::clone(present),
            first: Form {
                generation: naming.generation,
                native: render(&naming)?,
                next: OnceLock::new(),
            },
        })
    }

    /// The form for the current names; renders it if the names have changed.
    ///
    /// # Errors
    /// The error of `render`.
    #[inline]
    pub fn form(&self, render: impl FnOnce(&Arc<Naming>) -> Result<T>) -> Result<&T> {
        if self.present.generation() == self.first.generation {
            return Ok(&self.first.native);
        }
        self.changed(render)
    }

    /// The form for one generation; `None` if the statement has none for it.
    pub fn at(&self, generation: u64) -> Option<&T> {
        let forms = std::iter::successors(Some(&self.first), |form| form.next.get().map(|n| &**n));
        let mut found = forms.filter(|form| form.generation == generation);
        found.next().map(|form| &form.native)
    }

    #[cold]
    fn changed(&self, render: impl FnOnce(&Arc<Naming>) -> Result<T>) -> Result<&T> {
        let naming = self.present.naming();
        let mut rendered = None;
        let mut render = Some(render);
        let mut last = &self.first;
        loop {
            if last.generation == naming.generation {
                return Ok(&last.native);
            }
            if let Some(next) = last.next.get() {
                last = next;
                continue;
            }
            let new = match (rendered.take(), render.take()) {
                (Some(new), _) => new,
                (None, Some(render)) => Box::new(Form {
                    generation: naming.generation,
                    native: render(&naming)?,
                    next: OnceLock::new(),
                }),
                (None, None) => return Err(Error::internal("a statement was not rendered")),
            };
            // Another thread may have added a form of another generation in the meantime.
            rendered = last.next.set(new).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(epoch: u64, table: &str) -> Arc<Names> {
        let mut names = Names {
            epoch,
            ..Names::default()
        };
        if !table.is_empty() {
            names
                .tables
                .insert("posts".to_owned(), TableNames::new(table));
        }
        Arc::new(names)
    }

    fn table(naming: &Arc<Naming>) -> String {
        naming.names.table("posts").to_owned()
    }

    #[test]
    fn a_statement_is_rendered_once_per_rename() {
        let present = Arc::new(PresentNames::default());
        let prepared = Prepared::new(&present, |naming| Ok(table(naming))).expect("rendered");
        let unrendered = |_: &Arc<Naming>| panic!("rendered again");
        assert_eq!(prepared.form(unrendered).expect("there"), "posts");
        assert!(!present.is_watched());

        present.set(names(3, "articles"));
        assert_eq!(
            prepared.form(|naming| Ok(table(naming))).expect("rendered"),
            "articles"
        );
        assert_eq!(prepared.form(unrendered).expect("there"), "articles");
        assert!(present.is_watched());

        // The same names at a later epoch, and other names of an earlier one.
        present.set(names(5, "articles"));
        present.set(names(4, "texts"));
        assert_eq!(prepared.form(unrendered).expect("there"), "articles");

        present.set(names(6, ""));
        assert_eq!(
            prepared.form(|naming| Ok(table(naming))).expect("rendered"),
            "posts"
        );
        assert_eq!(prepared.at(0).map(String::as_str), Some("posts"));
        assert_eq!(prepared.at(1).map(String::as_str), Some("articles"));
        assert_eq!(prepared.at(3), None);
    }

    #[test]
    fn names_of_indexes_return_with_the_next_epoch() {
        let present = PresentNames::default();
        present.set(names(1, ""));
        present.without_hints(present.generation());
        let generation = present.generation();
        assert!(present.naming().without_hints);
        present.set(names(1, ""));
        assert_eq!(present.generation(), generation);
        present.set(names(2, ""));
        assert!(!present.naming().without_hints && present.generation() > generation);
    }

    #[tokio::test]
    async fn callers_with_the_same_stale_names_share_one_reading() {
        let present = Arc::new(PresentNames::default());
        assert!(!present.refreshed(0).await.expect("no hook"));
        let (store, read) = (Arc::clone(&present), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&read);
        present.on_stale(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            store.set(names(1, "articles"));
            Box::pin(async { Ok(()) })
        }));
        let (one, two) = tokio::join!(present.refreshed(0), present.refreshed(0));
        assert!(one.expect("read") && two.expect("read"));
        assert_eq!(read.load(Ordering::Relaxed), 1);

        let error = present.within_transaction(Error::internal("gone"), 0).await;
        assert_eq!(error.code(), linchpin_core::Code::SchemaPending);
        assert!(error.is_conflicting_write());
        let error = present.within_transaction(Error::internal("gone"), 1).await;
        assert_eq!(error.code(), linchpin_core::Code::Internal);
    }
}
