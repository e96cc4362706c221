//! Calls of operations: the permission depends on the records that they name and the values that
//! they write.

use super::{Moved, Permit};
use crate::entity::{DefaultDesc, EntityDesc, PageArgs};
use crate::filter::{Filter, SourceSpec};
use crate::operation::{AssignSpec, OpSpec, Place, Subject, check, equalities, resolve, value_of};
use crate::resource::{Call, Form, Table};
use crate::{Cx, Error, Result, Value};

impl Permit {
    /// The call of an operation, limited to the permitted records, and the one record that it
    /// names.
    ///
    /// # Errors
    /// Like [`Permit::record`].
    pub(crate) async fn operation(
        &self,
        table: &Table,
        cx: &Cx,
        spec: &OpSpec,
        args: &[Option<Value>],
        looks: bool,
    ) -> Result<(Cx, Option<Filter>)> {
        let looks = looks || spec.kind.runs_code();
        let written = |field: Option<usize>| match field
            .filter(|_| self.waits())
            .and_then(|field| spec.kind.writes(field))
        {
            Some(source) => given(source, cx, args),
            None => Ok(None),
        };
        let written = Moved {
            resource: written(self.resource())?,
            target: written(self.rank)?,
        };
        let cx = match self.subject {
            Subject::Record => {
                if self.waits() || looks {
                    // Invalid input is reported first. Otherwise the executor validates it, and the
                    // record is read only after that.
                    valid(table, spec, cx, args)?;
                }
                let matches = matches(table, spec, cx, args)?;
                return Ok((
                    self.record(table, cx, &matches, written, looks).await?,
                    Some(matches),
                ));
            }
            Subject::Either => {
                let matches = matches(table, spec, cx, args)?;
                let cx = if self.waits() {
                    let value = |field: Option<usize>, written: Option<Value>| {
                        field.map(|field| {
                            cx.bound(self.entity, field)
                                .or(written)
                                .unwrap_or_else(|| by_default(self.entity, field, cx))
                        })
                    };
                    let (resource, target) = (
                        value(self.resource, written.resource),
                        value(self.rank, written.target),
                    );
                    self.limit(cx.clone(), resource, target, true).await?
                } else {
                    cx.clone()
                };
                if let Some(only) = cx.only(self.entity)
                    && let Some(found) = self.look(table, &cx, &matches).await?
                {
                    only.admits(&found)?;
                }
                return Ok((cx, Some(matches)));
            }
            Subject::Records if self.waits() => {
                // The resource comes from an equality condition on all records found; without such
                // a condition, the grant must cover all resources.
                let matched = spec
                    .kind
                    .matches()
                    .iter()
                    .find(|assign| Some(assign.field) == self.resource);
                let resource = matched
                    .map(|assign| given(&assign.value, cx, args))
                    .transpose()?
                    .flatten();
                if let Some(moved) = written
                    .resource
                    .filter(|moved| Some(moved) != resource.as_ref())
                {
                    // A move into another resource, like for one record.
                    valid(table, spec, cx, args)?;
                    self.may_move(cx, Some(&moved), None).await?;
                }
                self.limit(cx.clone(), resource, None, false).await?
            }
            Subject::Records | Subject::New | Subject::Foreign => cx.clone(),
        };
        Ok((cx, None))
    }
}

/// The one record that an operation names.
fn matches(table: &Table, spec: &OpSpec, cx: &Cx, args: &[Option<Value>]) -> Result<Filter> {
    let own = spec.kind.matches();
    if own.is_empty() {
        let id = spec.params.iter().position(|p| p.place == Place::Id);
        let id = id
            .and_then(|id| args.get(id).cloned().flatten())
            .ok_or_else(Error::not_found)?;
        return Ok(table.by_id(id));
    }
    resolve(equalities(own), cx, args)
}

/// Validates the values that an operation writes.
///
/// # Errors
/// `validation_failed` with all problems.
fn valid(table: &Table, spec: &OpSpec, cx: &Cx, args: &[Option<Value>]) -> Result<()> {
    let written = (0..table.desc.fields.len()).filter_map(|field| {
        Some(AssignSpec {
            field,
            value: *spec.kind.writes(field)?,
        })
    });
    let written: Vec<AssignSpec> = written.collect();
    let call = Call {
        cx,
        args: args.to_vec(),
        page: PageArgs::default(),
        form: &Form::Records,
        version: None,
    };
    check(spec, table, &call, &written)
}

/// The value of a source, unless it is a parameter that the call omits.
fn given(source: &SourceSpec, cx: &Cx, args: &[Option<Value>]) -> Result<Option<Value>> {
    match source {
        SourceSpec::Param(index) => Ok(args.get(*index).cloned().flatten()),
        other => value_of(&other.into(), cx, args).map(Some),
    }
}

/// The default value of a field of a new record.
fn by_default(entity: &EntityDesc, field: usize, cx: &Cx) -> Value {
    match entity.fields[field].default {
        DefaultDesc::Literal(value) => value(),
        DefaultDesc::Ctx(path) => cx.value(path),
        _ => Value::Null,
    }
}
