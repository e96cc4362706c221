//! Typed access to a table.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Borrowed, Draft, Form, ListRequest, Outcome, Table};
use crate::entity::{Entity, FieldType, Input, ListQuery, Many, One, Page};
use crate::store::Rows;
use crate::validate::canonical_value;
use crate::{Cx, Error, Problem, Result, Value};

/// Create, read, update and delete for an entity in code. The generated adapter dereferences to it
/// and adds a method per operation.
pub struct Adapter<E> {
    pub(super) table: Arc<Table>,
    entity: PhantomData<fn() -> E>,
}

impl<E> Clone for Adapter<E> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            entity: PhantomData,
        }
    }
}

impl<E> std::fmt::Debug for Adapter<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Adapter").field(&self.table).finish()
    }
}

impl<E: Entity> Adapter<E> {
    /// Creates typed access to a table of `E`.
    #[doc(hidden)]
    pub fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            entity: PhantomData,
        }
    }

    /// Converts typed input to a draft. Refuses values of counters: only the framework writes them.
    fn draft(&self, input: impl Input) -> Result<Draft> {
        let draft = Draft::from_input(self.table.desc, input);
        let written_counters = draft
            .values
            .iter()
            .enumerate()
            .filter(|(i, value)| value.is_some() && self.table.is_counter(*i));
        let problem = |i: usize| {
            let text = "is a counter: only the framework writes it";
            Problem::new(self.table.desc.fields[i].wire, "read_only", text)
        };
        let problems: Vec<Problem> = written_counters.map(|(i, _)| problem(i)).collect();
        if problems.is_empty() {
            Ok(draft)
        } else {
            Err(Error::validation(problems))
        }
    }

    /// Creates a record.
    ///
    /// # Errors
    /// `validation_failed` with all problems; `conflict` for a key or unique value that is already
    /// taken.
    pub async fn create(&self, cx: &Cx, input: E::Create) -> Result<E> {
        let draft = self.draft(input)?;
        let (rows, _) = self
            .table
            .create(&self.table.at_present(cx), draft, &Form::Records)
            .await?;
        one(rows)
    }

    /// Returns a page of records.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0.
    pub async fn list(&self, cx: &Cx, query: ListQuery<E>) -> Result<Page<E>> {
        let ListQuery {
            page,
            sort,
            filter,
            deleted,
            ..
        } = query;
        page_of(
            self.table
                .list(
                    &self.table.at_present(cx),
                    ListRequest {
                        page,
                        sort,
                        filter,
                        deleted,
                    },
                    &Form::Records,
                )
                .await?,
        )
    }

    /// Returns a record by its key; `None` if it does not exist.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn get(&self, cx: &Cx, id: impl Into<E::Id>) -> Result<Option<E>> {
        optional(
            self.table
                .get(
                    &self.table.at_present(cx),
                    key::<E>(id.into()),
                    &Form::Records,
                )
                .await?,
        )
    }

    /// Changes the fields that are present in `patch`. If `version` is given, it must equal the
    /// stored version.
    ///
    /// # Errors
    /// `validation_failed`, `not_found`, `precondition_failed`, `conflict`.
    pub async fn update(
        &self,
        cx: &Cx,
        id: impl Into<E::Id>,
        patch: E::Patch,
        version: Option<i64>,
    ) -> Result<E> {
        let draft = self.draft(patch)?;
        one(self
            .table
            .update(
                &self.table.at_present(cx),
                key::<E>(id.into()),
                draft,
                version,
                &Form::Records,
            )
            .await?)
    }

    /// Deletes a record. If `version` is given, it must equal the stored version.
    ///
    /// # Errors
    /// `not_found`, `precondition_failed`.
    pub async fn delete(&self, cx: &Cx, id: impl Into<E::Id>, version: Option<i64>) -> Result<()> {
        self.table
            .delete(&self.table.at_present(cx), key::<E>(id.into()), version)
            .await
    }

    /// Returns the record for each key of a `belongs_to` relation:
    /// `posts.related(cx, Post::AUTHOR, [post.author_id])`.
    ///
    /// It runs one statement for all keys. The result is `None` for a null key and for a key
    /// without a visible record.
    ///
    /// # Errors
    /// 401 or 403 if the tenant or scope of the other entity needs a value that the caller lacks.
    pub async fn related<T: Entity>(
        &self,
        cx: &Cx,
        relation: One<E, T>,
        keys: impl IntoIterator<Item = impl Into<Option<T::Id>>>,
    ) -> Result<Vec<Option<T>>> {
        let keys: Vec<Value> = keys
            .into_iter()
            .map(|one| one.into().map_or(Value::Null, key::<T>))
            .collect();
        let found = self
            .table
            .related_values(&self.table.at_present(cx), relation.name, &keys)
            .await?;
        let read = |values: &[Value]| T::read(&Borrowed(values)).map_err(Error::internal);
        found
            .iter()
            .map(|(records, _)| records.first().map(|values| read(values)).transpose())
            .collect()
    }

    /// Returns the first records for each key of a `has_many` relation:
    /// `posts.related_pages(cx, Post::COMMENTS, [post.id])`.
    ///
    /// It runs one statement for all keys. The cursor of a page is valid in [`list`](Self::list) of
    /// the other entity, with the key as the only filter.
    ///
    /// # Errors
    /// Like [`related`](Self::related).
    pub async fn related_pages<T: Entity>(
        &self,
        cx: &Cx,
        relation: Many<E, T>,
        keys: impl IntoIterator<Item = impl Into<E::Id>>,
    ) -> Result<Vec<Page<T>>> {
        let keys: Vec<Value> = keys.into_iter().map(|one| key::<E>(one.into())).collect();
        let found = self
            .table
            .related_values(&self.table.at_present(cx), relation.name, &keys)
            .await?;
        let read = |values: &[Value]| T::read(&Borrowed(values)).map_err(Error::internal);
        let page = |(records, next_cursor): (Vec<Box<[Value]>>, Option<String>)| {
            let items = records
                .iter()
                .map(|values| read(values))
                .collect::<Result<_>>()?;
            Ok(Page {
                items,
                has_more: next_cursor.is_some(),
                next_cursor,
            })
        };
        found.into_iter().map(page).collect()
    }

    /// Removes a record permanently, even if the entity only marks deleted records. Only for
    /// [`Cx::system`].
    ///
    /// # Errors
    /// `forbidden` on behalf of an actor; `not_found`.
    pub async fn purge(&self, cx: &Cx, id: impl Into<E::Id>) -> Result<()> {
        self.table
            .purge(&self.table.at_present(cx), key::<E>(id.into()))
            .await
    }
}

/// The stored form of a key.
fn key<E: Entity>(id: E::Id) -> Value {
    canonical_value(E::DESC.primary_field(), id.into_value())
}

pub(super) fn optional<E: Entity>(mut rows: Rows) -> Result<Option<E>> {
    let Some(values) = rows.records.pop() else {
        return Ok(None);
    };
    E::read(&Borrowed(&values))
        .map(Some)
        .map_err(Error::internal)
}

pub(super) fn one<E: Entity>(rows: Rows) -> Result<E> {
    optional(rows)?.ok_or_else(Error::not_found)
}

/// Converts all records.
pub(crate) fn records_of<E: Entity>(rows: &Rows) -> Result<Vec<E>> {
    rows.records
        .iter()
        .map(|values| E::read(&Borrowed(values)).map_err(Error::internal))
        .collect()
}

pub(super) fn page_of<E: Entity>(outcome: Outcome) -> Result<Page<E>> {
    let Outcome::Page { rows, next_cursor } = outcome else {
        return Err(Error::internal("a page was expected"));
    };
    Ok(Page {
        items: records_of(&rows)?,
        has_more: next_cursor.is_some(),
        next_cursor,
    })
}
