//! The typed face of a table.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Borrowed, Draft, Form, ListRequest, Outcome, Table};
use crate::entity::{Entity, FieldType, Input, ListQuery, Many, One, Page};
use crate::store::Rows;
use crate::validate::canonical_value;
use crate::{Cx, Error, Problem, Result, Value};

/// CRUD of an entity in code. The generated adapter dereferences to it and adds a method per
/// operation.
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
    /// The typed face of a table of `E`.
    #[doc(hidden)]
    pub fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            entity: PhantomData,
        }
    }

    /// Typed input as a draft. What counts other records is not the caller's to write.
    fn draft(&self, input: impl Input) -> Result<Draft> {
        let draft = Draft::from_input(self.table.desc, input);
        let given = draft
            .values
            .iter()
            .enumerate()
            .filter(|(i, value)| value.is_some() && self.table.counts(*i));
        let problem = |i: usize| {
            let text = "counts other records: the framework writes it";
            Problem::new(self.table.desc.fields[i].wire, "read_only", text)
        };
        let problems: Vec<Problem> = given.map(|(i, _)| problem(i)).collect();
        if problems.is_empty() {
            Ok(draft)
        } else {
            Err(Error::validation(problems))
        }
    }

    /// Creates a record.
    ///
    /// # Errors
    /// `validation_failed` with every problem; `conflict` for a taken key or unique.
    pub async fn create(&self, cx: &Cx, input: E::Create) -> Result<E> {
        let draft = self.draft(input)?;
        let (rows, _) = self
            .table
            .create(&self.table.at_present(cx), draft, &Form::Records)
            .await?;
        one(rows)
    }

    /// A page of records.
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

    /// A record by its key; `None` when there is none.
    ///
    /// # Errors
    /// When the store cannot answer.
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

    /// Changes the members of `patch` that are present. `version`, when given, must be the stored
    /// one.
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

    /// Removes a record. `version`, when given, must be the stored one.
    ///
    /// # Errors
    /// `not_found`, `precondition_failed`.
    pub async fn delete(&self, cx: &Cx, id: impl Into<E::Id>, version: Option<i64>) -> Result<()> {
        self.table
            .delete(&self.table.at_present(cx), key::<E>(id.into()), version)
            .await
    }

    /// The record that each key names, for a relation of `belongs_to`:
    /// `posts.related(cx, Post::AUTHOR, [post.author_id])`.
    ///
    /// One statement for all keys; `None` for a key that is null or names no visible record.
    ///
    /// # Errors
    /// 401 or 403 when tenant or scope of the other entity need a value that the caller has not.
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

    /// The first records that name each key, for a relation of `has_many`:
    /// `posts.related_pages(cx, Post::COMMENTS, [post.id])`.
    ///
    /// One statement for all keys. A page's cursor goes on in [`list`](Self::list) of the other
    /// entity, filtered by the key alone.
    ///
    /// # Errors
    /// As [`related`](Self::related).
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

    /// Removes a record for good, also where deleting only marks it. Only for [`Cx::system`].
    ///
    /// # Errors
    /// `forbidden` on behalf of an actor; `not_found`.
    pub async fn purge(&self, cx: &Cx, id: impl Into<E::Id>) -> Result<()> {
        self.table
            .purge(&self.table.at_present(cx), key::<E>(id.into()))
            .await
    }
}

/// A key as it is stored.
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

/// All of the records.
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
