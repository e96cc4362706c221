//! Applies assignments to a record.

use super::items;
use crate::filter::Source;
use crate::store::{Assign, AssignValue};
use crate::{Error, Result, Value};

/// Returns the record after all assignments. Each assignment reads the old values.
///
/// # Errors
/// If an argument is missing, if a value has the wrong type for the assignment, or if a sum is too
/// large.
pub fn assign(old: &[Value], set: &[Assign], args: &[Value]) -> Result<Vec<Value>> {
    let mut new = old.to_vec();
    let given = |source: &Source| {
        fixed(source, args)
            .cloned()
            .ok_or_else(|| Error::internal("an assignment lacks its argument"))
    };
    for Assign { field, value } in set {
        let before = &old[*field];
        new[*field] = match value {
            AssignValue::Set(source) => given(source)?,
            AssignValue::Add(source) => add(before, &given(source)?)?,
            AssignValue::Push { value, dedupe } => {
                let (mut list, element) = elements(before, &given(value)?)?;
                if !*dedupe || !list.contains(&element) {
                    list.push(element);
                }
                Value::Strings(list)
            }
            AssignValue::Pull(source) => {
                let (mut list, element) = elements(before, &given(source)?)?;
                list.retain(|item| *item != element);
                Value::Strings(list)
            }
            AssignValue::AddItem(source) => items::add(before, &given(source)?)?,
            AssignValue::RemoveItem { key, id } => items::remove(before, key, &given(id)?)?,
            AssignValue::ChangeItem { key, id, members } => {
                let members = members
                    .iter()
                    .map(|(name, source)| Ok((*name, given(source)?)))
                    .collect::<Result<Vec<_>>>()?;
                items::change(before, key, &given(id)?, &members)?
            }
            AssignValue::Figure(_) => {
                return Err(Error::internal(
                    "this store computes and writes in a transaction",
                ));
            }
        };
    }
    Ok(new)
}

/// Returns the old list of strings, which is empty for null, and the text of the element.
fn elements(old: &Value, element: &Value) -> Result<(Vec<String>, String)> {
    match (old, element) {
        (Value::Null, Value::Text(element)) => Ok((Vec::new(), element.clone())),
        (Value::Strings(list), Value::Text(element)) => Ok((list.clone(), element.clone())),
        // Some stores keep string lists as JSON.
        (Value::Json(text), Value::Text(element)) => Ok((
            serde_json::from_str(text).map_err(Error::internal)?,
            element.clone(),
        )),
        _ => Err(Error::internal(
            "a list of strings can contain only strings",
        )),
    }
}

/// Adds two numbers. The statement checks the bounds of the field, so a request cannot cause an
/// overflow here.
fn add(old: &Value, by: &Value) -> Result<Value> {
    let out_of_range = || Error::internal("a sum is beyond the range of its field");
    match (old, by) {
        (Value::Null, by) => Ok(by.clone()),
        (Value::Int(a), Value::Int(b)) => {
            a.checked_add(*b).map(Value::Int).ok_or_else(out_of_range)
        }
        (Value::Float(a), Value::Float(b)) => Some(a + b)
            .filter(|sum| sum.is_finite())
            .map(Value::Float)
            .ok_or_else(out_of_range),
        (Value::Float(a), Value::Int(b)) => Ok(Value::Float(a + *b as f64)),
        _ => Err(Error::internal("only numbers can be added")),
    }
}

/// Returns the value of a source that is an argument or a literal.
pub fn fixed<'a>(source: &'a Source, args: &'a [Value]) -> Option<&'a Value> {
    match source {
        Source::Arg { index, .. } => args.get(*index),
        Source::Value(value) => Some(value),
        Source::Param(_) | Source::Ctx(_) | Source::Now => None,
    }
}
