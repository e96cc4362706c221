//! Changes of items in a list that is stored as JSON text.

use std::borrow::Cow;

use crate::validate::Json;
use crate::{Error, Result, Value};

/// Returns the list with the item added at the end.
pub fn add(list: &Value, item: &Value) -> Result<Value> {
    changed(list, |items| {
        items.push(read(item)?);
        Ok(())
    })
}

/// Returns the list without the item whose member `key` has the value `id`.
pub fn remove(list: &Value, key: &str, id: &Value) -> Result<Value> {
    changed(list, |items| {
        items.retain(|item| !has_id(item, key, id));
        Ok(())
    })
}

/// Returns the list with replaced members in the item whose member `key` has the value `id`.
pub fn change(list: &Value, key: &str, id: &Value, members: &[(&str, Value)]) -> Result<Value> {
    changed(list, |items| {
        for item in items.iter_mut().filter(|item| has_id(item, key, id)) {
            let Json::Object(item_members) = item else {
                continue;
            };
            for (name, value) in members {
                let value = read(value)?;
                match item_members.iter_mut().find(|(key, _)| key == name) {
                    Some(member) => member.1 = value,
                    None => item_members.push((Cow::Owned((*name).to_owned()), value)),
                }
            }
        }
        Ok(())
    })
}

/// Parses a list, changes it and writes it as JSON. Null is read as the empty list.
fn changed<'a>(
    list: &'a Value,
    change: impl FnOnce(&mut Vec<Json<'a>>) -> Result<()>,
) -> Result<Value> {
    let mut items = match list {
        Value::Null => Vec::new(),
        list => match read(list)? {
            Json::Array(items) => items,
            _ => return Err(Error::internal("only a list can contain items")),
        },
    };
    change(&mut items)?;
    let mut out = Vec::with_capacity(128);
    if !Json::Array(items).write_canonical(&mut out) {
        return Err(Error::internal(
            "an item contains a number that JSON cannot represent",
        ));
    }
    String::from_utf8(out)
        .map(Value::Json)
        .map_err(Error::internal)
}

fn read(value: &Value) -> Result<Json<'_>> {
    match value {
        Value::Json(text) => Json::parse(text.as_bytes()),
        _ => Err(Error::internal("items are JSON")),
    }
}

/// Whether the member `key` of an item has the value `id`.
fn has_id(item: &Json<'_>, key: &str, id: &Value) -> bool {
    let Json::Object(members) = item else {
        return false;
    };
    members.iter().any(|(name, value)| {
        name == key
            && match (value, id) {
                (Json::Text(text), Value::Text(id)) => text == id,
                (Json::Number(number), Value::Int(id)) => number.parse::<i64>() == Ok(*id),
                _ => false,
            }
    })
}
