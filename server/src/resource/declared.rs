//! Start-up check of the values in declarations against the rules of their fields. The macro has
//! checked literals already. This module checks values of consts, and formats, which the macro does
//! not check.

use linchpin_core::operation::OpSpec;

use crate::entity::{DefaultDesc, EntityDesc};
use crate::filter::SourceSpec;
use crate::validate::Validator;
use crate::{Code, Error, Problem, Result, Value};

/// Judges the defaults of an entity.
///
/// # Errors
/// One that names the value, the field and the rule.
pub(super) fn defaults(desc: &EntityDesc, validator: &Validator) -> Result<()> {
    for (field, of) in desc.fields.iter().enumerate() {
        if let DefaultDesc::Literal(value) = of.default {
            fits(
                desc,
                field,
                &value(),
                "is no default",
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
    let what = format!("cannot be what operation `{}` writes", spec.name);
    for (field, of) in desc.fields.iter().enumerate() {
        if let Some(SourceSpec::Literal(value)) = spec.kind.writes(field) {
            fits(desc, field, &value(), &what, &|value, problems| {
                validator.check(field, value, of.wire, problems);
            })?;
        }
    }
    for (field, value, element) in spec.kind.fixed() {
        let wire = desc.fields[field].wire;
        let judge = |value: &Value, problems: &mut Vec<Problem>| {
            if element {
                validator.check_element(field, value, wire, problems);
            } else {
                validator.check(field, value, wire, problems);
            }
        };
        fits(desc, field, &value(), &what, &judge)?;
    }
    Ok(())
}

fn fits(
    desc: &EntityDesc,
    field: usize,
    value: &Value,
    what: &str,
    judge: &dyn Fn(&Value, &mut Vec<Problem>),
) -> Result<()> {
    let (mut problems, of) = (Vec::new(), &desc.fields[field]);
    if !value.is_null() {
        judge(value, &mut problems);
    }
    let Some(problem) = problems.first() else {
        return Ok(());
    };
    let mut text = Vec::new();
    crate::json::write_value(value.as_ref(), &mut text);
    let text = String::from_utf8_lossy(&text);
    // This error appears only at start-up.
    Err(Error::new(
        Code::Internal,
        format!(
            "{text} {what}: `{}` of `{}` {}",
            of.name, desc.name, problem.message
        ),
    ))
}
