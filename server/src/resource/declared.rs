//! Start-up check of the values in declarations against the rules of their fields. The macro has
//! already checked literals, except against formats. This module checks all values, including the
//! values of consts, against all rules.

use linchpin_core::operation::OpSpec;

use crate::entity::{DefaultDesc, EntityDesc};
use crate::filter::SourceSpec;
use crate::validate::Validator;
use crate::{Code, Error, Problem, Result, Value};

/// Checks the defaults of an entity.
///
/// # Errors
/// An error that contains the value, the field and the rule.
pub(super) fn defaults(desc: &EntityDesc, validator: &Validator) -> Result<()> {
    for (field, of) in desc.fields.iter().enumerate() {
        if let DefaultDesc::Literal(value) = of.default {
            check_literal(
                desc,
                field,
                &value(),
                "cannot be the default",
                &|value, problems| validator.check(field, value, of.wire, problems),
            )?;
        }
    }
    Ok(())
}

/// Checks the values that an operation always writes.
///
/// # Errors
/// As [`defaults`].
pub(super) fn written(desc: &EntityDesc, validator: &Validator, spec: &OpSpec) -> Result<()> {
    let use_text = format!("cannot be written by operation `{}`", spec.name);
    for (field, of) in desc.fields.iter().enumerate() {
        if let Some(SourceSpec::Literal(value)) = spec.kind.writes(field) {
            check_literal(desc, field, &value(), &use_text, &|value, problems| {
                validator.check(field, value, of.wire, problems);
            })?;
        }
    }
    for (field, value, element) in spec.kind.fixed() {
        let wire = desc.fields[field].wire;
        let check = |value: &Value, problems: &mut Vec<Problem>| {
            if element {
                validator.check_element(field, value, wire, problems);
            } else {
                validator.check(field, value, wire, problems);
            }
        };
        check_literal(desc, field, &value(), &use_text, &check)?;
    }
    Ok(())
}

/// Checks a value that a declaration contains. `use_text` says in the error what the value is for.
fn check_literal(
    desc: &EntityDesc,
    field: usize,
    value: &Value,
    use_text: &str,
    check: &dyn Fn(&Value, &mut Vec<Problem>),
) -> Result<()> {
    let (mut problems, of) = (Vec::new(), &desc.fields[field]);
    if !value.is_null() {
        check(value, &mut problems);
    }
    let Some(problem) = problems.first() else {
        return Ok(());
    };
    let mut text = Vec::new();
    crate::json::write_value(value.as_ref(), &mut text);
    let text = String::from_utf8_lossy(&text);
    // `internal`, because this error can appear only at start-up.
    Err(Error::new(
        Code::Internal,
        format!(
            "{text} {use_text}: `{}` of `{}` {}",
            of.name, desc.name, problem.message
        ),
    ))
}
