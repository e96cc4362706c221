//! Calls of operations from generated methods.

use linchpin_core::operation::OpSpec;

use super::adapter::Adapter;
use super::{Call, Form, Outcome, Table};
use crate::entity::{Entity, PageArgs};
use crate::validate::canonical_value;
use crate::{Cx, Result, Value};

/// The arguments of a method: one value per parameter, and the wanted page.
#[doc(hidden)]
#[derive(Debug)]
pub struct CallArgs {
    values: Vec<Option<Value>>,
    page: PageArgs,
}

impl From<Vec<Option<Value>>> for CallArgs {
    fn from(values: Vec<Option<Value>>) -> Self {
        (values, PageArgs::default()).into()
    }
}

impl From<(Vec<Option<Value>>, PageArgs)> for CallArgs {
    fn from((values, page): (Vec<Option<Value>>, PageArgs)) -> Self {
        Self { values, page }
    }
}

/// Runs an operation for a generated method. `answer` converts the outcome into the return type of
/// the method: a function of [`answer`](super::answer).
///
/// # Errors
/// The errors of the operation and of `answer`.
#[doc(hidden)]
pub async fn run<E: Entity, A>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: impl Into<CallArgs>,
    answer: fn(&OpSpec, Outcome) -> Result<A>,
) -> Result<A> {
    let outcome = call(&adapter.table, spec, cx, args.into()).await?;
    answer(spec, outcome)
}

/// This function is not generic, so that it is compiled once and not for each operation.
async fn call(
    table: &Table,
    spec: &'static OpSpec,
    cx: &Cx,
    CallArgs { mut values, page }: CallArgs,
) -> Result<Outcome> {
    for (value, param) in values.iter_mut().zip(spec.params) {
        *value = value
            .take()
            .map(|value| canonical_value(param.field_of(table.desc), value));
    }
    let call = Call {
        cx: &table.at_present(cx),
        args: values,
        page,
        form: &Form::Records,
        version: None,
    };
    table.run(spec, call).await
}
