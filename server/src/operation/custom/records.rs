//! Records that a handler names by a condition in the words of its database, in place of their
//! keys.
//!
//! They are read by one statement, and that on the way of all others: the guard joins it there, and
//! it runs where others run.

use std::marker::PhantomData;

use super::call::Made;
use crate::entity::{Entity, FieldType, Kind, SortDesc};
use crate::filter::{Filter, Source};
use crate::resource::{Form, Table};
use crate::store::{Plan, Rows, Words};
use crate::{Cx, Result, Value};

/// Records of `E`, named by a condition: see
/// [`CustomCall::records`](super::call::CustomCall::records).
#[must_use = "records are read when they are answered, or by `CustomCall::read`"]
#[derive(Debug)]
pub struct Records<E> {
    choice: Choice,
    of: PhantomData<fn() -> E>,
}

/// The same, whatever the entity.
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

    /// The value of the next parameter: the first is `$1`.
    pub fn bind<T: FieldType>(mut self, value: T) -> Self {
        self.choice.values.push((value.into_value(), T::KIND));
        self
    }

    /// In this order, `views DESC, title`; where it leaves a choice, by the key. Without one, in
    /// the order of the entity.
    pub fn order_by(mut self, order: &'static str) -> Self {
        self.choice.order = order;
        self
    }

    /// So many at most.
    pub fn limit(mut self, most: u32) -> Self {
        self.choice.limit = Some(most);
        self
    }

    pub(super) fn choice(self) -> Choice {
        self.choice
    }
}

impl Choice {
    /// Reads the records, under the guard.
    ///
    /// # Errors
    /// `internal` for words that cannot be part of a statement, or that the database refuses.
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
            // No text that a database reads holds a NUL.
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
                words: Words {
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

/// What names records of `E`: their keys in order, or a condition.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no records of `{E}`",
    label = "the function answers `{Self}`",
    note = "it answers a `Vec` of their keys, or `call.records(\"..\")`: the records are read under the guard, which shows the caller's own alone"
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

/// What names a record of `E`: its key.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key of `{E}`",
    label = "the function answers `{Self}`",
    note = "it answers the key of a record, as in `Ok(id)`: the record is read under the guard, which shows the caller's own alone"
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

/// What names a record of `E`, or none.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `Option` of a key of `{E}`",
    label = "the function answers `{Self}`",
    note = "it answers `Some` key of a record, or `None`: the record is read under the guard, which shows the caller's own alone"
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

/// What the function answers is what the operation declares.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the operation answers `{T}`, and its function `{Self}`",
    label = "the function answers `{Self}`",
    note = "answer `{T}` in the function, or declare `output = {Self}`"
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

/// A type that is another one, which none is: where rustc would speak of a mismatch of its own, the
/// traits above have the word.
pub trait Same<T> {
    fn same(self) -> T;
}

impl<T> Same<T> for T {
    fn same(self) -> T {
        self
    }
}
