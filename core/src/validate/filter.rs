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

use serde_json::{Value as Json, json};

use super::parse_scalar;
use crate::ContextDesc;
use crate::entity::{EntityDesc, FieldDesc, Flags, Kind};
use crate::filter::{CtxPath, Filter, Op, Operand, Source};
use crate::operation::ParamSpec;
use crate::{Value, ValueRef};

/// Why JSON is not a valid filter of an entity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FilterError {
    /// The position, such as `$or[1].status.$in[0]`; `filter` for the whole.
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
    /// [`Filter::from_json`] parses it to an equal filter. Two forms cannot be parsed: the filter
    /// that matches everything, `{}`, and statement arguments, `{ "$arg": position }`.
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
            // A condition of the runtime; no declaration contains one.
            Self::Item {
                field, key, held, ..
            } => json!({ format!("#{field}.{key}"): { "$item": held } }),
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

struct Reader<'a> {
    entity: &'a EntityDesc,
    params: &'a [ParamSpec],
}

type Read<T> = Result<T, FilterError>;

impl Reader<'_> {
    fn filter(&self, json: &Json, path: &str) -> Read<Filter> {
        let Json::Object(entries) = json else {
            return Err(FilterError::new(path, "a filter is an object"));
        };
        let mut all = Vec::new();
        for (key, value) in entries {
            let path = join(path, key);
            match key.as_str() {
                "$and" => all.push(Filter::All(self.group(value, &path)?)),
                "$or" => all.push(Filter::Any(self.group(value, &path)?)),
                name => self.entry(name, value, &path, &mut all)?,
            }
        }
        match all.pop() {
            None => Err(FilterError::new(path, "a filter has at least one entry")),
            Some(only) if all.is_empty() => Ok(only),
            Some(last) => {
                all.push(last);
                Ok(Filter::All(all))
            }
        }
    }

    fn group(&self, json: &Json, path: &str) -> Read<Vec<Filter>> {
        match json {
            Json::Array(list) if !list.is_empty() => list
                .iter()
                .enumerate()
                .map(|(i, f)| self.filter(f, &format!("{path}[{i}]")))
                .collect(),
            _ => Err(FilterError::new(
                path,
                "needs a list of at least one filter",
            )),
        }
    }

    /// Parses one field with its condition, which becomes one node per operator.
    fn entry(&self, name: &str, json: &Json, path: &str, all: &mut Vec<Filter>) -> Read<()> {
        let Some(index) = self.entity.field_by_wire(name) else {
            let what = if name.starts_with('$') {
                "operator in this place"
            } else {
                "field"
            };
            return Err(FilterError::new(
                path,
                format!("unknown {what} `{name}` on {}", self.entity.name),
            ));
        };
        let field = &self.entity.fields[index];
        if matches!(field.kind, Kind::Json | Kind::Items(_)) {
            return Err(FilterError::new(
                path,
                format!("`{name}` ({}) cannot be matched", field.kind.name()),
            ));
        }
        match json {
            Json::Object(ops) if !ops.contains_key("$literal") => {
                if ops.is_empty() {
                    return Err(FilterError::new(
                        path,
                        "a condition has at least one operator",
                    ));
                }
                for (name, operand) in ops {
                    let path = join(path, name);
                    let op = op_named(name).ok_or_else(|| {
                        FilterError::new(&path, format!("unknown operator; supported: {OPS}"))
                    })?;
                    all.push(Filter::cond(
                        index,
                        op,
                        self.operand(field, op, operand, &path)?,
                    ));
                }
            }
            value => all.push(Filter::cond(
                index,
                Op::Eq,
                self.operand(field, Op::Eq, value, path)?,
            )),
        }
        Ok(())
    }

    fn operand(&self, field: &FieldDesc, op: Op, json: &Json, path: &str) -> Read<Operand> {
        let fits = match op {
            Op::Eq | Op::Ne => true,
            Op::Gt | Op::Gte | Op::Lt | Op::Lte => matches!(
                field.kind,
                Kind::String | Kind::Integer | Kind::Number | Kind::Date
            ),
            Op::In | Op::Nin => field.kind.is_scalar(),
            Op::Contains => matches!(field.kind, Kind::String),
            Op::Has => matches!(field.kind, Kind::StringArray),
            Op::Shorter | Op::Longer => false,
        };
        if !fits {
            return Err(FilterError::new(
                path,
                format!(
                    "`{}` does not fit `{}` ({})",
                    op.as_str(),
                    field.wire,
                    field.kind.name()
                ),
            ));
        }
        if !matches!(op, Op::In | Op::Nin) {
            let source = self.value(field, op, json, path)?;
            if matches!(&source, Source::Param(i) if self.params[*i].list) {
                return Err(FilterError::new(
                    path,
                    "a list parameter fits `$in` and `$nin` only",
                ));
            }
            return Ok(Operand::One(source));
        }
        match json {
            Json::Array(list) if list.is_empty() => {
                Err(FilterError::new(path, "the list is empty"))
            }
            Json::Array(list) => {
                let element = |(i, item): (usize, &Json)| {
                    let path = format!("{path}[{i}]");
                    match self.value(field, op, item, &path)? {
                        Source::Param(i) if self.params[i].list => Err(FilterError::new(
                            &path,
                            "a list parameter cannot be an element",
                        )),
                        source => Ok(source),
                    }
                };
                list.iter()
                    .enumerate()
                    .map(element)
                    .collect::<Read<_>>()
                    .map(Operand::List)
            }
            Json::String(text) if text.starts_with("param:") => {
                match self.value(field, op, json, path)? {
                    Source::Param(i) if !self.params[i].list => Err(FilterError::new(
                        path,
                        "needs a list, or a parameter that is one",
                    )),
                    source => Ok(Operand::One(source)),
                }
            }
            _ => Err(FilterError::new(
                path,
                "needs a list, or a parameter that is one",
            )),
        }
    }

    fn value(&self, field: &FieldDesc, op: Op, json: &Json, path: &str) -> Read<Source> {
        match json {
            Json::String(text) if text == "now" => {
                if matches!(field.kind, Kind::Date) {
                    Ok(Source::Now)
                } else {
                    Err(FilterError::new(
                        path,
                        "`now` compares with dates; the text itself is written { \"$literal\": \"now\" }",
                    ))
                }
            }
            Json::String(text) => {
                if let Some(name) = text.strip_prefix("param:") {
                    self.param(field, name, path)
                } else if let Some(name) = text.strip_prefix("ctx:") {
                    ctx(field, name, path)
                } else {
                    literal(field, op, json, path).map(Source::Value)
                }
            }
            Json::Object(members) => match (members.len(), members.get("$literal")) {
                (1, Some(value)) => literal(field, op, value, path).map(Source::Value),
                _ => Err(FilterError::new(
                    path,
                    "a value is a literal, a reference or { \"$literal\": value }",
                )),
            },
            Json::Array(_) => Err(FilterError::new(
                path,
                "a list fits `$in` and `$nin` only; a whole list is written { \"$literal\": [..] }",
            )),
            json => literal(field, op, json, path).map(Source::Value),
        }
    }

    fn param(&self, field: &FieldDesc, name: &str, path: &str) -> Read<Source> {
        if name.contains('.') {
            return Err(FilterError::new(
                path,
                format!("a parameter has no dots; for a value of the context write `ctx:{name}`"),
            ));
        }
        let index = self.params.iter().position(|p| p.name == name);
        let Some(index) = index else {
            return Err(FilterError::new(
                path,
                format!("unknown parameter `{name}`"),
            ));
        };
        let declared = Some(self.params[index].field_of(self.entity).kind);
        if declared.is_some_and(|kind| kind.meets(field.kind)) {
            Ok(Source::Param(index))
        } else {
            let declared = declared.map_or("unknown", Kind::name);
            Err(FilterError::new(
                path,
                format!(
                    "parameter `{name}` is {declared}, `{}` is {}",
                    field.wire,
                    field.kind.name()
                ),
            ))
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

const OPS: &str = "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $has";

fn op_named(name: &str) -> Option<Op> {
    let all = [
        Op::Eq,
        Op::Ne,
        Op::Gt,
        Op::Gte,
        Op::Lt,
        Op::Lte,
        Op::In,
        Op::Nin,
        Op::Contains,
        Op::Has,
    ];
    all.into_iter().find(|op| op.as_str() == name)
}

fn literal(field: &FieldDesc, op: Op, json: &Json, path: &str) -> Read<Value> {
    let refuse = |message: &str| Err(FilterError::new(path, message));
    let value = match json {
        Json::Null if matches!(op, Op::Eq | Op::Ne | Op::In | Op::Nin) => Value::Null,
        Json::Null => return refuse(&format!("`{}` never holds for null", op.as_str())),
        Json::Array(list) if matches!(field.kind, Kind::StringArray) && op != Op::Has => {
            let texts = list
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>();
            Value::Strings(
                texts.ok_or_else(|| FilterError::new(path, "must be a list of strings"))?,
            )
        }
        Json::String(text) if matches!(field.kind, Kind::StringArray) && op == Op::Has => {
            Value::Text(text.clone())
        }
        _ if matches!(field.kind, Kind::StringArray) => {
            return refuse(if op == Op::Has {
                "must be a string"
            } else {
                "must be a list of strings"
            });
        }
        // Numbers have the syntax of queries. The literal decides: 5.0 is no integer.
        Json::Number(n) => match field.kind {
            Kind::Integer | Kind::Number if !field.flags.has(Flags::PRIMARY) => {
                scalar(field, &n.to_string(), path)?
            }
            _ => return refuse(expected(field)),
        },
        Json::Bool(b) if matches!(field.kind, Kind::Boolean) => Value::Bool(*b),
        Json::String(text) => match field.kind {
            Kind::String | Kind::Enum(_) | Kind::Date => scalar(field, text, path)?,
            Kind::Integer if field.flags.has(Flags::PRIMARY) => scalar(field, text, path)?,
            _ => return refuse(expected(field)),
        },
        _ => return refuse(expected(field)),
    };
    if op == Op::Contains && value.as_text() == Some("") {
        return refuse("`$contains` needs some text");
    }
    Ok(value)
}

fn scalar(field: &FieldDesc, text: &str, path: &str) -> Read<Value> {
    parse_scalar(field, text).map_err(|flaw| FilterError::new(path, flaw.message))
}

fn expected(field: &FieldDesc) -> &'static str {
    match field.kind {
        Kind::Boolean => "must be true or false",
        Kind::Integer if !field.flags.has(Flags::PRIMARY) => "must be a whole number",
        Kind::Number => "must be a number",
        _ => "must be a string",
    }
}

fn ctx(field: &FieldDesc, name: &str, path: &str) -> Read<Source> {
    let found = match name {
        "actor.id" => CtxPath::ActorId,
        "actor.tenantId" => CtxPath::TenantId,
        "actor.kind" => CtxPath::ActorKind,
        "actor.sessionId" => CtxPath::SessionId,
        _ => match name.strip_prefix("actor.claims.") {
            Some(claim) if !claim.is_empty() => CtxPath::Claim(interned(claim, path)?),
            None if is_name(name) => {
                let kind = if matches!(field.kind, Kind::StringArray) {
                    Kind::String
                } else {
                    field.kind
                };
                return Ok(Source::Ctx(CtxPath::Value(ContextDesc {
                    name: interned(name, path)?,
                    kind,
                })));
            }
            _ => return Err(FilterError::new(path, format!("`ctx:{name}` is unknown"))),
        },
    };
    // Claims have any type. The other values are texts, which can also be compared with keys of
    // other records.
    if !matches!(found, CtxPath::Claim(_)) && !matches!(field.kind, Kind::String | Kind::Integer) {
        return Err(FilterError::new(
            path,
            format!(
                "`ctx:{name}` is a string, `{}` is {}",
                field.wire,
                field.kind.name()
            ),
        ));
    }
    Ok(Source::Ctx(found))
}

/// Whether a text can be the name of a context value. Names of actor values contain dots.
fn is_name(name: &str) -> bool {
    name != "actor"
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns a name that lives as long as the process, because declarations contain static names.
fn interned(name: &str, path: &str) -> Read<&'static str> {
    use std::collections::HashSet;
    use std::sync::LazyLock;

    use parking_lot::Mutex;

    /// The maximum number of names, because each name stays in memory.
    const MOST: usize = 1024;
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if names.len() >= MOST {
        return Err(FilterError::new(path, "too many different names"));
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    Ok(name)
}

/// An invalid declared filter is an error of the application, not of a request.
impl From<FilterError> for crate::Error {
    fn from(error: FilterError) -> Self {
        Self::internal(error)
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
