//! The JSON form of filters.
//!
//! ```text
//! filter  := { entry, ... }                  at least one entry; all must hold
//! entry   := field : cond | "$and" : [filter, ...] | "$or" : [filter, ...]
//! cond    := value | { op : operand, ... }   all operators must hold
//! op      := $eq $ne $gt $gte $lt $lte $in $nin $contains $has
//! operand := value                           for $in and $nin: [value, ...] or a list parameter
//! value   := literal | "param:x" | "ctx:path" | "now" | { "$literal": literal }
//! ```
//!
//! Fields have their wire names. Literals have the field's wire form: dates are RFC 3339 text,
//! enums their variants. **Escape:** a text that looks like a reference (`now`, or anything that
//! starts with `param:` or `ctx:`) is written `{ "$literal": "now" }`, on fields of every type. A
//! whole list that is compared with `$eq` or `$ne` is written in the same way.

mod read;

use serde_json::{Value as Json, json};

use self::read::Reader;
use crate::ValueRef;
use crate::entity::{EntityDesc, FieldDesc, Flags};
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::ParamSpec;

/// The reason why JSON is not a valid filter of an entity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FilterError {
    /// The position, such as `$or[1].status.$in[0]`; `filter` for the whole filter.
    pub path: String,
    /// The error message.
    pub message: String,
}

impl FilterError {
    fn new(path: &str, message: impl Into<String>) -> Self {
        Self {
            path: if path.is_empty() {
                "filter".to_owned()
            } else {
                path.to_owned()
            },
            message: message.into(),
        }
    }
}

impl Filter {
    /// Returns the JSON form. `params` are those of the operation that declares the filter.
    ///
    /// [`Filter::from_json`] parses the result to an equal filter, with three exceptions: the
    /// filter that matches everything (`{}`), arguments of statements (`{ "$arg": position }`), and
    /// conditions that only the runtime adds.
    pub fn to_json(&self, entity: &EntityDesc, params: &[ParamSpec]) -> Json {
        let group = |name: &str, list: &[Self]| -> Json {
            let list: Vec<Json> = list.iter().map(|f| f.to_json(entity, params)).collect();
            json!({ name: list })
        };
        match self {
            Self::All(list) if list.is_empty() => json!({}),
            Self::All(list) => group("$and", list),
            Self::Any(list) => group("$or", list),
            Self::Cond { field, op, value } => {
                let (name, write) = match entity.fields.get(*field) {
                    Some(desc) => (
                        desc.wire.to_owned(),
                        Writer {
                            field: Some(desc),
                            params,
                        },
                    ),
                    None => (
                        format!("#{field}"),
                        Writer {
                            field: None,
                            params,
                        },
                    ),
                };
                let operand = match value {
                    Operand::One(source) => write.source(source),
                    Operand::List(list) => list.iter().map(|s| write.source(s)).collect(),
                };
                match op {
                    Op::Eq => json!({ name: operand }),
                    op => json!({ name: { op.as_str(): operand } }),
                }
            }
            // Only the runtime adds this condition and the next two; no declaration contains them.
            Self::Item {
                field,
                key,
                must_exist,
                ..
            } => json!({ format!("#{field}.{key}"): { "$item": must_exist } }),
            Self::Linked(linked) => {
                json!({ format!("#{}", linked.field): { "$linked": linked.of.name } })
            }
            Self::Given(_) => json!({ "$given": true }),
        }
    }

    /// Parses the JSON form and checks it against the entity: fields, operators, types of literals
    /// and parameters.
    ///
    /// Use it for declarations and configuration, not for input from clients: private fields are
    /// allowed, and names of claims stay in memory for the life of the process.
    ///
    /// # Errors
    /// The first error and its position.
    ///
    /// ```
    /// # use linchpin::{entity::*, filter::*, validate::FilterError};
    /// # static FIELDS: [FieldDesc; 1] = [FieldDesc::new("score", "score", "score", Kind::Integer, true)];
    /// # static POST: EntityDesc = EntityDesc::new("Post", "posts", "posts", &FIELDS);
    /// let filter = Filter::from_json(&serde_json::json!({ "score": { "$gt": 5 } }), &POST, &[])?;
    /// assert_eq!(filter, Filter::cond(0, Op::Gt, Operand::One(Source::Value(linchpin::Value::Int(5)))));
    ///
    /// let error = Filter::from_json(&serde_json::json!({ "score": { "$gt": "5" } }), &POST, &[]).unwrap_err();
    /// assert_eq!(error.to_string(), "score.$gt: must be a whole number");
    /// # Ok::<(), FilterError>(())
    /// ```
    pub fn from_json(
        json: &Json,
        entity: &EntityDesc,
        params: &[ParamSpec],
    ) -> Result<Self, FilterError> {
        Reader { entity, params }.filter(json, "")
    }
}

struct Writer<'a> {
    field: Option<&'a FieldDesc>,
    params: &'a [ParamSpec],
}

impl Writer<'_> {
    fn source(&self, source: &Source) -> Json {
        match source {
            Source::Param(index) => match self.params.get(*index) {
                Some(param) => format!("param:{}", param.name).into(),
                None => json!({ "$arg": index }),
            },
            Source::Ctx(path) => format!("ctx:{path}").into(),
            Source::Now => "now".into(),
            Source::Arg { index, .. } => json!({ "$arg": index }),
            Source::Value(value) => self.literal(value.as_ref()),
        }
    }

    fn literal(&self, value: ValueRef<'_>) -> Json {
        match value {
            ValueRef::Null => Json::Null,
            ValueRef::Bool(b) => b.into(),
            // Ids are strings in JSON, also for integer keys.
            ValueRef::Int(key) if self.field.is_some_and(|f| f.flags.has(Flags::PRIMARY)) => {
                key.to_string().into()
            }
            ValueRef::Int(n) => n.into(),
            ValueRef::Float(n) => n.into(),
            ValueRef::Text(text) if is_reference(text) => json!({ "$literal": text }),
            ValueRef::Text(text) => text.into(),
            ValueRef::Date(date) => date.to_string().into(),
            ValueRef::Strings(list) => json!({ "$literal": list }),
            ValueRef::Json(text) => {
                json!({ "$literal": serde_json::from_str::<Json>(text).unwrap_or_default() })
            }
        }
    }
}

/// Whether a text has a special meaning.
fn is_reference(text: &str) -> bool {
    text == "now" || text.starts_with("param:") || text.starts_with("ctx:")
}

/// An invalid declared filter is an error of the application, not of a request.
impl From<FilterError> for crate::Error {
    fn from(error: FilterError) -> Self {
        Self::internal(error)
    }
}

#[cfg(test)]
mod tests;
