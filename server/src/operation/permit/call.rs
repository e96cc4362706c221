//! Calls of operations: the permission depends on the records that they name and the values that
//! they write.

use super::grant::RecordConditions;
use super::{Permit, WrittenValues};
use crate::entity::{DefaultDesc, EntityDesc, PageArgs};
use crate::filter::{Filter, SourceSpec};
use crate::operation::{AssignSpec, OpSpec, Place, Subject, check, equalities, resolve, value_of};
use crate::resource::{Call, Form, Table};
use crate::{Cx, Error, Result, Value};

impl Permit {
    /// Returns the call of an operation, limited to the permitted records. If the operation is
    /// about one record, also returns the condition for this record.
    ///
    /// # Errors
    /// Like [`Permit::record`].
    pub(crate) async fn operation(
        &self,
        table: &Table,
        cx: &Cx,
        spec: &OpSpec,
        args: &[Option<Value>],
        runs_app_code: bool,
    ) -> Result<(Cx, Option<Filter>)> {
        let runs_app_code = runs_app_code || spec.kind.runs_code();
        let written = |field: Option<usize>| match field
            .filter(|_| self.needs_record())
            .and_then(|field| spec.kind.writes(field))
        {
            Some(source) => value_if_given(source, cx, args),
            None => Ok(None),
        };
        let written = WrittenValues {
            resource: written(self.resource())?,
            target: written(self.target)?,
        };
        let cx = match self.subject {
            Subject::Record => {
                if self.needs_record() || runs_app_code {
                    // Invalid input is reported before the record is read. In the other case, the
                    // executor validates the input, and only then reads the record.
                    check_values(table, spec, cx, args)?;
                }
                let matches = matches(table, spec, cx, args)?;
                return Ok((
                    self.record(table, cx, &matches, written, runs_app_code)
                        .await?,
                    Some(matches),
                ));
            }
            Subject::Either => {
                let matches = matches(table, spec, cx, args)?;
                let cx = if self.needs_record() {
                    let value = |field: Option<usize>, written: Option<Value>| {
                        field.map(|field| {
                            cx.bound(self.entity, field)
                                .or(written)
                                .unwrap_or_else(|| by_default(self.entity, field, cx))
                        })
                    };
                    let (resource, target) = (
                        value(self.resource, written.resource),
                        value(self.target, written.target),
                    );
                    self.limit(
                        cx.clone(),
                        resource,
                        RecordConditions::ResourceAndTarget(target),
                    )
                    .await?
                } else {
                    cx.clone()
                };
                if let Some(only) = cx.only(self.entity)
                    && let Some(found) = self.read_record(table, &cx, &matches).await?
                {
                    only.admits(&found)?;
                }
                return Ok((cx, Some(matches)));
            }
            Subject::Records if self.needs_record() => {
                // The resource comes from an equality condition on the matching records. Without
                // such a condition, the grant must cover all resources.
                let matched = spec
                    .kind
                    .matches()
                    .iter()
                    .find(|assign| Some(assign.field) == self.resource);
                let resource = matched
                    .map(|assign| value_if_given(&assign.value, cx, args))
                    .transpose()?
                    .flatten();
                if let Some(moved) = written
                    .resource
                    .filter(|moved| Some(moved) != resource.as_ref())
                {
                    // If the call moves records into another resource, that resource is checked as
                    // for one record.
                    check_values(table, spec, cx, args)?;
                    self.may_move(cx, Some(&moved), None).await?;
                }
                self.limit(cx.clone(), resource, RecordConditions::None)
                    .await?
            }
            Subject::Records | Subject::New | Subject::Foreign => cx.clone(),
        };
        Ok((cx, None))
    }
}

/// The condition for the one record that an operation is about.
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
fn check_values(table: &Table, spec: &OpSpec, cx: &Cx, args: &[Option<Value>]) -> Result<()> {
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
fn value_if_given(source: &SourceSpec, cx: &Cx, args: &[Option<Value>]) -> Result<Option<Value>> {
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
