//! The executor of `computed_aggregate`.

use std::sync::Arc;

use super::ComputedAggregate;
use crate::entity::{Bound, EntityDesc, Kind, Relation};
use crate::filter::Filter;
use crate::operation::OpSpec;
use crate::operation::bind;
use crate::resource::{BoxFuture, Call, Executor, Form, Outcome, Table};
use crate::store::{Compute, Figure, Function, Rows};
use crate::validate::{MAX_INTEGER, out_of_range};
use crate::{Code, Cx, Error, Problem, Result, Value};

/// Plans an operation of this kind for one mounted entity.
pub(super) fn plan(
    kind: &'static ComputedAggregate,
    spec: &'static OpSpec,
    table: &Table,
) -> Box<dyn Executor> {
    Box::new(Run::new(kind, spec, table))
}

pub(super) struct Run {
    kind: &'static ComputedAggregate,
    spec: &'static OpSpec,
    filter: Filter,
    matches: Filter,
    compute: Vec<Compute>,
}

impl Run {
    pub(super) fn new(kind: &'static ComputedAggregate, spec: &'static OpSpec, _: &Table) -> Self {
        let compute = kind.compute.iter().map(|output| Compute {
            function: output.function.unwrap_or(Function::Count),
            field: output.field,
            filter: output.filter.as_ref().map_or(Filter::TRUE, Filter::from),
        });
        Self {
            kind,
            spec,
            filter: (&kind.filter).into(),
            matches: bind::equalities(kind.matches),
            compute: compute.collect(),
        }
    }

    async fn write(&self, own: &Table, call: &Call<'_>) -> Result<Outcome> {
        bind::check(self.spec, own, call, &[])?;
        bind::check_operands(self.spec, &self.filter, &call.args)?;
        let source = own.sibling(self.kind.source)?;
        let other = self
            .kind
            .target
            .map(|target| own.sibling(target))
            .transpose()?;
        // The other entity has no such operation. For its routes and events this is an update of
        // its record.
        let (target, route) = other
            .as_deref()
            .map_or((own, self.spec.name), |other| (other, "update"));
        if !source.shares_store(target) {
            return Err(Error::internal(format!(
                "`{}` and `{}` live in different stores",
                source.desc.name, target.desc.name
            )));
        }
        target.refuse_ambiguous(call.cx, self.kind.matches)?;
        let matches = bind::resolve(self.matches.clone(), call.cx, &call.args)?;
        let filter = bind::resolve(self.filter.clone(), call.cx, &call.args)?;
        let rows = match self
            .write_in_one_statement(call, &source, (target, route), &filter, &matches)
            .await
        {
            Ok(Some(rows)) => Ok(rows),
            // Two statements need a transaction: otherwise records could change between the
            // computation and the write.
            Ok(None) => {
                self.write_in_transaction(call, &source, (target, route), &filter, &matches)
                    .await
            }
            Err(error) => Err(error),
        };
        rows.map(Outcome::Record)
            .map_err(|error| self.with_field_path(error, target))
    }

    /// Adds the field to the error of a sum that the store cannot represent.
    fn with_field_path(&self, error: Error, target: &Table) -> Error {
        let of_a_sum = |p: &Problem| p.path.is_empty() && p.code == "range";
        let range = error.code() == Code::ValidationFailed && error.details().iter().all(of_a_sum);
        if range {
            self.out_of_range(target)
        } else {
            error
        }
    }

    fn out_of_range(&self, target: &Table) -> Error {
        let field = &target.desc.fields[self.kind.field];
        Error::invalid(Problem::new(
            field.name_in_errors(),
            "range",
            "the computed value is out of the range of the field",
        ))
    }

    /// Computes and writes the number in one statement, if the store supports it and the field has
    /// no constraint except bounds. `None` if that is not possible or nothing was written: there is
    /// no such record, or the number is out of bounds.
    async fn write_in_one_statement(
        &self,
        call: &Call<'_>,
        source: &Table,
        (target, route): (&Table, &'static str),
        filter: &Filter,
        matches: &Filter,
    ) -> Result<Option<Rows>> {
        let ([compute], false, Some(within)) = (
            &*self.compute,
            self.kind.object,
            bounds(target.desc, self.kind.field),
        ) else {
            return Ok(None);
        };
        if !target.computes(self.kind.atomic, self.kind.field) {
            return Ok(None);
        }
        let figure = Figure {
            source: source.desc,
            filter: filter.clone(),
            compute: Compute {
                filter: bind::resolve(compute.filter.clone(), call.cx, &call.args)?,
                ..compute.clone()
            },
            within,
            optional: target.desc.fields[self.kind.field].optional,
        };
        let form = self.form(call, target);
        let rows = target
            .write_figure(
                call.cx,
                (route, matches.clone()),
                self.kind.field,
                source,
                figure,
                &form,
            )
            .await?;
        Ok((rows.count > 0).then_some(rows))
    }

    /// The form of the response. A record of another entity has the fields that its entity returns.
    fn form(&self, call: &Call<'_>, target: &Table) -> Form {
        match call.form {
            Form::Json(_) if self.kind.target.is_some() => {
                Form::Json(Arc::clone(&target.projection))
            }
            form => form.clone(),
        }
    }

    /// Computes and writes the number in a transaction. The transaction is repeated after a
    /// conflict with other transactions.
    async fn write_in_transaction(
        &self,
        call: &Call<'_>,
        source: &Table,
        target: (&Table, &'static str),
        filter: &Filter,
        matches: &Filter,
    ) -> Result<Rows> {
        let mut retry = target.0.retry(call.cx);
        loop {
            let (filter, matches) = (filter.clone(), matches.clone());
            let done = retry
                .attempt(call.cx, async |cx| {
                    self.write_in(cx, call, source, target, filter, matches)
                        .await
                })
                .await;
            if let Some(done) = retry.finished(done).await {
                return done;
            }
        }
    }

    async fn write_in(
        &self,
        cx: &Cx,
        call: &Call<'_>,
        source: &Table,
        (target, route): (&Table, &'static str),
        filter: Filter,
        matches: Filter,
    ) -> Result<Rows> {
        // The record is locked before the computation. So of several concurrent calls, the last one
        // includes the changes of the others.
        let key = target
            .lock(cx, route, matches)
            .await?
            .ok_or_else(Error::not_found)?;
        let compute = self.compute.iter().map(|c| {
            Ok(Compute {
                filter: bind::resolve(c.filter.clone(), cx, &call.args)?,
                ..c.clone()
            })
        });
        let compute = compute.collect::<Result<_>>()?;
        let row = source
            .aggregate(cx, "list", filter, (Vec::new(), Vec::new()), compute, 1)
            .await?
            .pop()
            .unwrap_or_default();
        if row.iter().any(|value| out_of_range(value).is_some()) {
            return Err(self.out_of_range(target));
        }
        let value = if self.kind.object {
            self.object(&row)
        } else {
            row.into_vec().into_iter().next().unwrap_or_default()
        };
        self.check(target, &value)?;
        let form = self.form(call, target);
        let rows = target
            .write_field(cx, route, key, self.kind.field, value, &form)
            .await?;
        if rows.count == 0 {
            Err(Error::not_found())
        } else {
            Ok(rows)
        }
    }

    /// All members as one object.
    fn object(&self, row: &[Value]) -> Value {
        let mut json = Vec::new();
        for (n, (output, value)) in self.kind.compute.iter().zip(row).enumerate() {
            json.push(if n == 0 { b'{' } else { b',' });
            crate::json::write_str(output.name, &mut json);
            json.push(b':');
            crate::json::write_value(value.as_ref(), &mut json);
        }
        json.push(b'}');
        // The text is JSON that was built from valid strings.
        Value::Json(String::from_utf8_lossy(&json).into_owned())
    }

    /// Checks whether the field may contain the result.
    fn check(&self, target: &Table, value: &Value) -> Result<()> {
        let field = &target.desc.fields[self.kind.field];
        let mut problems = Vec::new();
        match value {
            Value::Null if field.optional => {}
            Value::Null => problems.push(Problem::new(
                field.name_in_errors(),
                "null_not_allowed",
                "nothing was computed",
            )),
            _ => target.validator.check(
                self.kind.field,
                value,
                field.name_in_errors(),
                &mut problems,
            ),
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::validation(problems))
        }
    }
}

/// The minimum and maximum of a field; `None` for a field with further constraints.
fn bounds(desc: &EntityDesc, field: usize) -> Option<(Value, Value)> {
    let field_desc = desc.fields.get(field)?;
    let is_foreign_key = desc
        .relations
        .iter()
        .filter_map(Relation::enforced)
        .any(|(key, _)| key == field)
        || desc.gates.iter().any(|gate| gate.field == field);
    if field_desc.reads.is_some() || is_foreign_key || !field_desc.rules.one_of_int.is_empty() {
        return None;
    }
    let (least, greatest) = field_desc.rules.range;
    match field_desc.kind {
        Kind::Integer => {
            let bound_or = |bound, all: i64| match bound {
                None => Some(all),
                Some(Bound::Int(n)) => Some(n),
                Some(Bound::Float(_)) => None,
            };
            let (least, greatest) = (
                bound_or(least, -MAX_INTEGER)?,
                bound_or(greatest, MAX_INTEGER)?,
            );
            Some((
                Value::Int(least.max(-MAX_INTEGER)),
                Value::Int(greatest.min(MAX_INTEGER)),
            ))
        }
        Kind::Number => {
            let bound_or = |bound, all: f64| match bound {
                None => Some(all),
                Some(Bound::Float(n)) => Some(n),
                Some(Bound::Int(_)) => None,
            };
            Some((
                Value::Float(bound_or(least, f64::MIN)?),
                Value::Float(bound_or(greatest, f64::MAX)?),
            ))
        }
        _ => None,
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move { self.write(table, &call).await })
    }
}
