//! Parsing of the JSON form.

use serde_json::Value as Json;

use super::FilterError;
use crate::entity::{EntityDesc, FieldDesc, Flags, Kind};
use crate::filter::{CtxPath, Filter, Op, Operand, Source};
use crate::operation::ParamSpec;
use crate::validate::parse_scalar;
use crate::{ContextDesc, Value};

pub(super) struct Reader<'a> {
    pub(super) entity: &'a EntityDesc,
    pub(super) params: &'a [ParamSpec],
}

type Read<T> = Result<T, FilterError>;

impl Reader<'_> {
    pub(super) fn filter(&self, json: &Json, path: &str) -> Read<Filter> {
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
                    "only `$in` and `$nin` take a list parameter",
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
                    Source::Param(i) if !self.params[i].list => {
                        Err(FilterError::new(path, "needs a list or a list parameter"))
                    }
                    source => Ok(Operand::One(source)),
                }
            }
            _ => Err(FilterError::new(path, "needs a list or a list parameter")),
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
                        "`now` is only for dates; write the text as { \"$literal\": \"now\" }",
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
                "only `$in` and `$nin` take a list; to compare with a whole list, write { \"$literal\": [..] }",
            )),
            json => literal(field, op, json, path).map(Source::Value),
        }
    }

    fn param(&self, field: &FieldDesc, name: &str, path: &str) -> Read<Source> {
        if name.contains('.') {
            return Err(FilterError::new(
                path,
                format!(
                    "the name of a parameter must not contain dots; for a context value, write `ctx:{name}`"
                ),
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
        Json::Null => return refuse(&format!("`{}` is never true for null", op.as_str())),
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
        // Numbers have the same syntax as in queries, so 5.0 is not an integer.
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
        return refuse("`$contains` needs a text that is not empty");
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
    const MAX_NAMES: usize = 1024;
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if names.len() >= MAX_NAMES {
        return Err(FilterError::new(path, "too many different names"));
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    Ok(name)
}
