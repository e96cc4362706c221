//! Records that a function selects by an SQL condition instead of by their keys.
//!
//! One statement reads them. Like all statements, it contains the row-level filter.

use std::marker::PhantomData;

use super::call::Made;
use crate::entity::{Entity, FieldType, Kind, SortDesc};
use crate::filter::{Filter, Source};
use crate::resource::{Form, Table};
use crate::store::{CustomSql, Plan, Rows};
use crate::{Cx, Result, Value};

/// Records of `E` that a condition selects: see
/// [`CustomCall::records`](super::call::CustomCall::records).
#[must_use = "records are read when the function returns them, or by `CustomCall::read`"]
#[derive(Debug)]
pub struct Records<E> {
    choice: Choice,
    of: PhantomData<fn() -> E>,
}

/// [`Records`] without the type of the entity.
#[doc(hidden)]
#[derive(Debug)]
pub struct Choice {
    condition: &'static str,
    order: &'static str,
    values: Vec<(Value, Kind)>,
    limit: Option<u32>,
}

impl<E> Records<E> {
    pub(super) fn new(condition: &'static str) -> Self {
        Self {
            choice: Choice {
                condition,
                order: "",
                values: Vec::new(),
                limit: None,
            },
            of: PhantomData,
        }
    }

    /// Sets the value of the next parameter: the first one is `$1`.
    pub fn bind<T: FieldType>(mut self, value: T) -> Self {
        self.choice.values.push((value.into_value(), T::KIND));
        self
    }

    /// Sets the order, for example `views DESC, title`; the primary key breaks ties. Without it,
    /// the default order of the entity applies.
    pub fn order_by(mut self, order: &'static str) -> Self {
        self.choice.order = order;
        self
    }

    /// Sets the maximum number of records.
    pub fn limit(mut self, most: u32) -> Self {
        self.choice.limit = Some(most);
        self
    }

    pub(super) fn choice(self) -> Choice {
        self.choice
    }
}

impl Choice {
    /// Reads the records, with the row-level filter.
    ///
    /// # Errors
    /// `internal` for a condition or an order that cannot be part of a statement, or that the
    /// database refuses.
    pub(super) async fn read(
        self,
        table: &Table,
        cx: &Cx,
        route: &'static str,
        form: &Form,
    ) -> Result<Rows> {
        let Self {
            condition,
            order,
            values,
            limit,
        } = self;
        let slots = values.len();
        let (mut args, kinds): (Vec<Value>, Vec<Kind>) = values.into_iter().unzip();
        let mut key = Vec::with_capacity(64 + condition.len() + order.len());
        let limited = if limit.is_some() { "limited" } else { "" };
        for part in ["custom records", condition, order, limited]
            .into_iter()
            .chain(kinds.iter().map(|kind| kind.name()))
        {
            key.extend_from_slice(part.as_bytes());
            // No SQL text contains a NUL.
            key.push(0);
        }
        let plan = || {
            let rest = SortDesc {
                field: table.desc.primary,
                desc: false,
            };
            let rest = table.order(if order.is_empty() {
                table.desc.sort
            } else {
                std::slice::from_ref(&rest)
            });
            let limit = limit.map(|_| Source::Arg {
                index: slots,
                nullable: false,
            });
            Plan::Chosen {
                filter: Filter::TRUE,
                sql: CustomSql {
                    condition,
                    order,
                    kinds,
                },
                order: rest,
                limit,
            }
        };
        let statement = table.shape(route, &key, plan)?;
        args.extend(limit.map(|most| Value::Int(most.into())));
        table.execute(cx, &statement, args, table.rows(form)).await
    }
}

/// The records of `E` that a function returns: their keys in order, or a condition.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of keys of `{E}`",
    label = "the function returns `{Self}`",
    note = "return a `Vec` of their keys, or `call.records(\"..\")`: the response contains only records that the caller may see"
)]
pub trait Named<E> {
    fn made(self) -> Made;
}

#[diagnostic::do_not_recommend]
impl<E: Entity, K: Same<E::Id>> Named<E> for Vec<K> {
    fn made(self) -> Made {
        Made::Many(
            self.into_iter()
                .map(|key| key.same().into_value())
                .collect(),
        )
    }
}

impl<E: Entity> Named<E> for Records<E> {
    fn made(self) -> Made {
        Made::Chosen(self.choice)
    }
}

/// The record of `E` that a function returns: its key.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the key type of `{E}`",
    label = "the function returns `{Self}`",
    note = "return the key of a record, as in `Ok(id)`: the response contains it only if the caller may see it"
)]
pub trait NamesOne<E: Entity> {
    fn key(self) -> E::Id;
}

#[diagnostic::do_not_recommend]
impl<E: Entity, K: Same<E::Id>> NamesOne<E> for K {
    fn key(self) -> E::Id {
        self.same()
    }
}

/// The record of `E` that a function returns, or none.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `Option` of a key of `{E}`",
    label = "the function returns `{Self}`",
    note = "return `Some` key of a record, or `None`: the response contains it only if the caller may see it"
)]
pub trait MayName<E: Entity> {
    fn key(self) -> Option<E::Id>;
}

#[diagnostic::do_not_recommend]
impl<E: Entity, K: Same<E::Id>> MayName<E> for Option<K> {
    fn key(self) -> Option<E::Id> {
        self.map(Same::same)
    }
}

/// The function returns the declared output of the operation.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the operation returns `{T}`, but its function returns `{Self}`",
    label = "the function returns `{Self}`",
    note = "return `{T}` in the function, or declare `output = {Self}`"
)]
pub trait Answers<T> {
    fn answer(self) -> T;
}

#[diagnostic::do_not_recommend]
impl<T, V: Same<T>> Answers<T> for V {
    fn answer(self) -> T {
        self.same()
    }
}

/// Type equality. Every type implements it for itself only, so that a mismatch is reported with the
/// messages above instead of rustc's own.
pub trait Same<T> {
    fn same(self) -> T;
}

impl<T> Same<T> for T {
    fn same(self) -> T {
        self
    }
}
