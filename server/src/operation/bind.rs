//! Converts declared sources into arguments of statements.
//!
//! During planning, every parameter, context value and `now` gets an argument slot; each call fills
//! the slots. So values are never part of the text of a statement.

use super::{AssignSpec, OpSpec, ParamSpec, Place};
use crate::entity::EntityDesc;
use crate::filter::{Filter, Op, Operand, Source, SourceSpec};
use crate::resource::{Call, Table};
use crate::store::{Assign, AssignValue};
use crate::{Cx, Error, Problem, Result, Value};

/// The argument slots of one statement.
#[derive(Debug, Default, Clone)]
pub(crate) struct Slots {
    sources: Vec<Source>,
}

impl Slots {
    /// The slot of a source; fixed values need no slot.
    pub(crate) fn slot(&mut self, entity: &EntityDesc, field: usize, source: Source) -> Source {
        if matches!(source, Source::Value(_) | Source::Arg { .. }) {
            return source;
        }
        let nullable = entity.fields[field].optional && matches!(source, Source::Param(_));
        let index = self.index(source);
        Source::Arg { index, nullable }
    }

    /// The slot of the call's instant.
    pub(crate) fn now(&mut self) -> usize {
        self.index(Source::Now)
    }

    /// The first slot after the declared ones, for arguments of the caller.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    fn index(&mut self, source: Source) -> usize {
        if let Some(index) = self.sources.iter().position(|s| *s == source) {
            return index;
        }
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Declared sources of a filter, as slots.
    pub(crate) fn filter(&mut self, entity: &EntityDesc, filter: Filter) -> Filter {
        filter.map_sources(&mut |field, _, source| self.slot(entity, field, source))
    }

    /// The values of the slots for a call.
    ///
    /// # Errors
    /// 401 or 403 when a context value is null.
    pub(crate) fn values(&self, cx: &Cx, args: &[Option<Value>]) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(self.sources.len() + 2);
        for source in &self.sources {
            values.push(value_of(source, cx, args)?);
        }
        Ok(values)
    }
}

/// The value of a source for a call.
///
/// # Errors
/// 401 or 403 when a context value is null.
pub(crate) fn value_of(source: &Source, cx: &Cx, args: &[Option<Value>]) -> Result<Value> {
    Ok(match source {
        Source::Param(index) => args.get(*index).cloned().flatten().unwrap_or_default(),
        Source::Ctx(path) => cx.bind(*path)?,
        Source::Now => Value::Date(cx.now()),
        Source::Value(value) => value.clone(),
        Source::Arg { .. } => Value::Null,
    })
}

/// The condition `field == source` for every element of the list, combined with AND.
pub(crate) fn equalities(list: &[AssignSpec]) -> Filter {
    let conditions = list
        .iter()
        .map(|a| Filter::cond(a.field, Op::Eq, Operand::One(Source::from(&a.value))));
    Filter::All(conditions.collect())
}

/// Assignments with their sources in slots.
pub(crate) fn assignments(
    slots: &mut Slots,
    entity: &EntityDesc,
    list: &[&AssignSpec],
) -> Vec<Assign> {
    list.iter()
        .map(|a| Assign {
            field: a.field,
            value: AssignValue::Set(slots.slot(entity, a.field, Source::from(&a.value))),
        })
        .collect()
}

/// The filter of a call: sources other than `now` are replaced by their values, and conditions with
/// omitted parameters are dropped.
///
/// # Errors
/// 401 or 403 when a context value is null.
pub(crate) fn resolve(filter: Filter, cx: &Cx, args: &[Option<Value>]) -> Result<Filter> {
    let omitted = |p: usize| args.get(p).is_none_or(Option::is_none);
    let Some(filter) = filter.without_params(&omitted) else {
        return Ok(Filter::TRUE);
    };
    let mut failed = None;
    // `now` stays in the filter, because the cursor of a page must not depend on it. The table
    // replaces it.
    let filter = filter.map_sources(&mut |_, _, source| match value_of(&source, cx, args) {
        _ if source == Source::Now => source,
        Ok(value) => Source::Value(value),
        Err(error) => {
            failed.get_or_insert(error);
            Source::Value(Value::Null)
        }
    });
    failed.map_or(Ok(filter), Err)
}

/// Like [`resolve`], for pages. A parameter whose default is `now` becomes `now` if its value is
/// the instant of the call, so that cursors do not depend on the instant.
///
/// # Errors
/// 401 or 403 when a context value is null.
pub(crate) fn resolve_page(filter: Filter, spec: &OpSpec, call: &Call<'_>) -> Result<Filter> {
    let is_now = |index: usize| {
        let by_default = spec
            .params
            .get(index)
            .is_some_and(|param| matches!(param.default, Some(SourceSpec::Now)));
        by_default
            && call.args.get(index).and_then(Option::as_ref) == Some(&Value::Date(call.cx.now()))
    };
    let filter = filter.map_sources(&mut |_, _, source| match source {
        Source::Param(index) if is_now(index) => Source::Now,
        other => other,
    });
    resolve(filter, call.cx, &call.args)
}

/// The path of problems with a parameter.
pub(crate) fn param_path(param: &ParamSpec) -> String {
    match param.place {
        Place::Body => param.name.to_owned(),
        Place::Whole(_) => String::new(),
        Place::Id => format!("path:{}", param.name),
        Place::Segment | Place::Query => format!("query:{}", param.name),
    }
}

/// Checks the arguments of a call before any statement: presence, null, and the constraints of the
/// fields that they are written to.
///
/// # Errors
/// `validation_failed` with every problem.
pub(crate) fn check(
    spec: &OpSpec,
    table: &Table,
    call: &Call<'_>,
    written: &[AssignSpec],
) -> Result<()> {
    let mut problems = Vec::new();
    for (index, param) in spec.params.iter().enumerate() {
        match call.args.get(index).and_then(Option::as_ref) {
            None if param.required => {
                problems.push(Problem::new(param_path(param), "required", "is required"));
            }
            Some(Value::Null) if !param.nullable => {
                problems.push(Problem::new(
                    param_path(param),
                    "null_not_allowed",
                    "must not be null",
                ));
            }
            Some(value) if !value.is_null() => {
                let is_written = |a: &AssignSpec| matches!(a.value, crate::filter::SourceSpec::Param(p) if p == index);
                for target in written.iter().filter(|a| is_written(a)) {
                    table
                        .validator
                        .check(target.field, value, &param_path(param), &mut problems);
                }
            }
            _ => {}
        }
    }
    for target in written {
        judge_context(&target.value, call.cx, |value| {
            table.validator.check(
                target.field,
                value,
                table.desc.fields[target.field].wire,
                &mut problems,
            );
        });
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::validation(problems))
    }
}

/// Validates a context value, or the instant of the call, that is written to a field. A null value
/// is not validated here: it is refused when the statement is bound.
pub(crate) fn judge_context(source: &SourceSpec, cx: &Cx, judge: impl FnOnce(&Value)) {
    match source {
        SourceSpec::Ctx(path) => {
            if let Ok(value) = cx.bind(*path)
                && !value.is_null()
            {
                judge(&value);
            }
        }
        SourceSpec::Now => judge(&Value::Date(cx.now())),
        SourceSpec::Param(_) | SourceSpec::Literal(_) => {}
    }
}

/// Refuses operands that a filter does not support: an empty or null `$contains`, a null `$has`.
///
/// # Errors
/// `validation_failed` with every problem.
pub(crate) fn check_operands(spec: &OpSpec, filter: &Filter, args: &[Option<Value>]) -> Result<()> {
    let mut problems = Vec::new();
    let _ = filter.clone().map_sources(&mut |_, op, source| {
        if let Source::Param(index) = source
            && let Some(param) = spec.params.get(index)
        {
            match (op, args.get(index).and_then(Option::as_ref)) {
                (Op::Contains, Some(Value::Text(text))) if text.is_empty() => {
                    problems.push(Problem::new(
                        param_path(param),
                        "empty",
                        "must not be empty",
                    ));
                }
                (Op::Contains | Op::Has, Some(Value::Null)) => {
                    problems.push(Problem::new(
                        param_path(param),
                        "null_not_allowed",
                        "must not be null",
                    ));
                }
                _ => {}
            }
        }
        source
    });
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::validation(problems))
    }
}
