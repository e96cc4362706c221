//! Plans to SQL text, once per statement.

use std::fmt::Write;

use crate::entity::EntityDesc;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{After, Assign, AssignValue, Order, Plan};
use crate::{Error, Result, Value};

/// A rendered statement.
#[derive(Debug)]
pub(super) struct Native {
    /// With the entity's columns as its rows.
    pub(super) sql: Box<str>,
    /// The same write without rows, for callers that only count.
    pub(super) counting: Option<Box<str>>,
    pub(super) binds: Box<[Bind]>,
    pub(super) writes: bool,
    /// Whether it reads a bounded number of rows, so that it may run inline.
    pub(super) bounded: bool,
}

/// What fills a parameter: a value, or the argument at a slot.
#[derive(Debug)]
pub(super) struct Bind {
    pub(super) value: std::result::Result<Value, usize>,
    pub(super) form: Form,
}

/// How a value is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// Folded, as the right side of `$contains`.
    Folded,
}

/// Renders a plan.
///
/// # Errors
/// When the plan holds a source that should have become an argument.
pub(super) fn render(entity: &'static EntityDesc, plan: &Plan) -> Result<Native> {
    let mut r = Renderer { entity, binds: Vec::new() };
    let table = quote(entity.storage_name);
    let columns = r.columns();
    let (sql, counting, writes, bounded) = match plan {
        Plan::Insert => {
            let values: Vec<String> = (0..entity.fields.len()).map(|i| r.parameter(Err(i), Form::Plain)).collect();
            (format!("INSERT INTO {table} ({columns}) VALUES ({})", values.join(", ")), None, true, true)
        }
        Plan::Select { filter, order, after, limit } => {
            let sql = r.select(filter, order, after.as_ref(), limit.as_ref())?;
            (sql, None, false, limit.is_some() || pinned(entity, filter))
        }
        Plan::Exists { filter } => {
            let condition = r.filter(filter)?;
            (format!("SELECT 1 FROM {table} WHERE {condition} LIMIT 1"), None, false, true)
        }
        Plan::Update { filter, set } => {
            let set = r.assignments(set)?;
            let condition = r.filter(filter)?;
            let plain = format!("UPDATE {table} SET {set} WHERE {condition}");
            (format!("{plain} RETURNING {columns}"), Some(plain), true, true)
        }
        Plan::Delete { filter } => {
            let plain = format!("DELETE FROM {table} WHERE {}", r.filter(filter)?);
            (format!("{plain} RETURNING {columns}"), Some(plain), true, true)
        }
    };
    Ok(Native { sql: sql.into(), counting: counting.map(Into::into), binds: r.binds.into(), writes, bounded })
}

/// A name in SQL; doubling the quotes makes every name legal.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether a filter names the primary key or a whole unique, so that few rows can match.
fn pinned(entity: &EntityDesc, filter: &Filter) -> bool {
    let equal = |f: &Filter, field: usize| matches!(f, Filter::Cond { field: at, op: Op::Eq, .. } if *at == field);
    let named = |field: usize| match filter {
        Filter::All(list) => list.iter().any(|f| equal(f, field)),
        single => equal(single, field),
    };
    named(entity.primary) || entity.uniques.iter().any(|u| u.fields.iter().all(|f| named(*f) && !entity.fields[*f].optional))
}

struct Renderer {
    entity: &'static EntityDesc,
    binds: Vec<Bind>,
}

impl Renderer {
    fn columns(&self) -> String {
        self.entity.fields.iter().map(|f| quote(f.column)).collect::<Vec<_>>().join(", ")
    }

    fn column(&self, field: usize) -> Result<String> {
        self.entity.fields.get(field).map(|f| quote(f.column)).ok_or_else(|| Error::internal("a plan names a field that does not exist"))
    }

    fn parameter(&mut self, value: std::result::Result<Value, usize>, form: Form) -> String {
        self.binds.push(Bind { value, form });
        format!("?{}", self.binds.len())
    }

    fn source(&mut self, source: &Source, form: Form) -> Result<String> {
        match source {
            Source::Value(value) => Ok(self.parameter(Ok(value.clone()), form)),
            Source::Arg { index, .. } => Ok(self.parameter(Err(*index), form)),
            other => Err(Error::internal(format!("a plan holds {other:?} instead of an argument"))),
        }
    }

    fn assignments(&mut self, set: &[Assign]) -> Result<String> {
        let mut parts = Vec::with_capacity(set.len());
        for Assign { field, value } in set {
            let column = self.column(*field)?;
            parts.push(match value {
                AssignValue::Set(source) => format!("{column} = {}", self.source(source, Form::Plain)?),
                AssignValue::Add(source) => format!("{column} = COALESCE({column}, 0) + {}", self.source(source, Form::Plain)?),
            });
        }
        Ok(parts.join(", "))
    }

    fn filter(&mut self, filter: &Filter) -> Result<String> {
        match filter {
            Filter::All(list) if list.is_empty() => Ok("1".to_owned()),
            Filter::Any(list) if list.is_empty() => Ok("0".to_owned()),
            Filter::All(list) => self.join(list, " AND "),
            Filter::Any(list) => self.join(list, " OR "),
            Filter::Cond { field, op, value } => self.condition(*field, *op, value),
        }
    }

    fn join(&mut self, list: &[Filter], with: &str) -> Result<String> {
        let parts: Vec<String> = list.iter().map(|f| self.filter(f)).collect::<Result<_>>()?;
        Ok(if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(with)) })
    }

    // Two-valued: a comparison with null is false (NULL counts as false, and nothing here is ever negated), `$ne` and `$nin`
    // are true for null.
    fn condition(&mut self, field: usize, op: Op, value: &Operand) -> Result<String> {
        let column = self.column(field)?;
        let optional = self.entity.fields[field].optional;
        let one = match value {
            Operand::List(list) => return self.list(&column, op, list),
            Operand::One(source) => source,
        };
        let null = matches!(one, Source::Value(Value::Null));
        let nullable = matches!(one, Source::Arg { nullable: true, .. });
        Ok(match op {
            Op::Eq if null => format!("{column} IS NULL"),
            Op::Eq if nullable => format!("{column} IS {}", self.source(one, Form::Plain)?),
            Op::Eq => format!("{column} = {}", self.source(one, Form::Plain)?),
            Op::Ne if null => format!("{column} IS NOT NULL"),
            Op::Ne if nullable || optional => format!("{column} IS NOT {}", self.source(one, Form::Plain)?),
            Op::Ne => format!("{column} <> {}", self.source(one, Form::Plain)?),
            Op::Gt => format!("{column} > {}", self.source(one, Form::Plain)?),
            Op::Gte => format!("{column} >= {}", self.source(one, Form::Plain)?),
            Op::Lt => format!("{column} < {}", self.source(one, Form::Plain)?),
            Op::Lte => format!("{column} <= {}", self.source(one, Form::Plain)?),
            Op::In => format!("{column} IN (SELECT value FROM json_each({}))", self.source(one, Form::Plain)?),
            Op::Nin => {
                format!("({column} IS NULL OR {column} NOT IN (SELECT value FROM json_each({})))", self.source(one, Form::Plain)?)
            }
            Op::Contains => format!("instr(linchpin_fold({column}), {}) > 0", self.source(one, Form::Folded)?),
            Op::Has => format!("EXISTS (SELECT 1 FROM json_each({column}) WHERE value = {})", self.source(one, Form::Plain)?),
        })
    }

    fn list(&mut self, column: &str, op: Op, list: &[Source]) -> Result<String> {
        let (each, with, empty) = match op {
            Op::In => ("IS", " OR ", "0"),
            Op::Nin => ("IS NOT", " AND ", "1"),
            _ => return Err(Error::internal("only $in and $nin take lists")),
        };
        if list.is_empty() {
            return Ok(empty.to_owned());
        }
        let certain = |s: &Source| matches!(s, Source::Value(v) if !v.is_null()) || matches!(s, Source::Arg { nullable: false, .. });
        if op == Op::In && list.iter().all(certain) {
            let values: Vec<String> = list.iter().map(|s| self.source(s, Form::Plain)).collect::<Result<_>>()?;
            return Ok(format!("{column} IN ({})", values.join(", ")));
        }
        let parts: Vec<String> =
            list.iter().map(|s| Ok(format!("{column} {each} {}", self.source(s, Form::Plain)?))).collect::<Result<_>>()?;
        Ok(format!("({})", parts.join(with)))
    }

    fn select(&mut self, filter: &Filter, order: &[Order], after: Option<&After>, limit: Option<&Source>) -> Result<String> {
        let table = quote(self.entity.storage_name);
        let columns = self.columns();
        let condition = self.filter(filter)?;
        let mut tail = String::new();
        if !order.is_empty() {
            let mut keys = Vec::new();
            for key in order {
                keys.push(format!("{} {}", self.column(key.field)?, if key.desc { "DESC" } else { "ASC" }));
            }
            // Writing to a String cannot fail.
            let _ = write!(tail, " ORDER BY {}", keys.join(", "));
        }
        let limit = limit.map(|l| self.source(l, Form::Plain)).transpose()?;
        if let Some(limit) = &limit {
            let _ = write!(tail, " LIMIT {limit}");
        }
        let parts = match after {
            None => vec![condition],
            Some(after) => {
                self.behind(order, after)?.into_iter().map(|p| if condition == "1" { p } else { format!("{condition} AND {p}") }).collect()
            }
        };
        let one = |part: &str| format!("SELECT {columns} FROM {table} WHERE {part}{tail}");
        Ok(match &parts[..] {
            [part] => one(part),
            // Each part is a stretch of the index, read in order; together they are one scan from where the page begins.
            parts => {
                let parts: Vec<String> = parts.iter().map(|p| format!("SELECT * FROM ({})", one(p))).collect();
                let limit = limit.map_or(String::new(), |l| format!(" LIMIT {l}"));
                format!("{}{limit}", parts.join(" UNION ALL "))
            }
        })
    }

    /// The records behind a position, as conditions whose results follow each other in the order.
    fn behind(&mut self, order: &[Order], after: &After) -> Result<Vec<String>> {
        if order.len() != after.keys.len() || order.is_empty() {
            return Err(Error::internal("a position does not fit its order"));
        }
        let desc = order[0].desc;
        let one_way = order.iter().all(|o| o.desc == desc);
        let optional = |o: &Order| self.entity.fields[o.field].optional;
        let rest_certain = order[1..].iter().all(|o| !optional(o)) && after.keys[1..].iter().all(Option::is_some);
        if !one_way || !rest_certain {
            return Ok(vec![self.behind_any(order, after)?]);
        }
        let columns: Vec<String> = order.iter().map(|o| self.column(o.field)).collect::<Result<_>>()?;
        let values: Vec<String> =
            after.keys.iter().map(|k| k.map_or(String::new(), |slot| self.parameter(Err(slot), Form::Plain))).collect();
        let than = if desc { "<" } else { ">" };
        let row = |from: usize| match &columns[from..] {
            [column] => format!("{column} {than} {}", values[from]),
            columns => format!("({}) {than} ({})", columns.join(", "), values[from..].join(", ")),
        };
        let first = &columns[0];
        Ok(match (after.keys[0], desc) {
            (Some(_), true) if optional(&order[0]) => vec![row(0), format!("{first} IS NULL")],
            (Some(_), _) => vec![row(0)],
            (None, _) if columns.len() == 1 => vec![if desc { "0".to_owned() } else { format!("{first} IS NOT NULL") }],
            (None, true) => vec![format!("{first} IS NULL AND {}", row(1))],
            (None, false) => vec![format!("{first} IS NULL AND {}", row(1)), format!("{first} IS NOT NULL")],
        })
    }

    /// The general form: equal in the first keys and behind in the next one.
    fn behind_any(&mut self, order: &[Order], after: &After) -> Result<String> {
        let mut cases = Vec::new();
        let mut equal: Vec<String> = Vec::new();
        for (key, slot) in order.iter().zip(&after.keys) {
            let column = self.column(key.field)?;
            let value = slot.map(|slot| self.parameter(Err(slot), Form::Plain));
            let behind = match (&value, key.desc) {
                (Some(v), false) => format!("{column} > {v}"),
                (Some(v), true) => format!("({column} < {v} OR {column} IS NULL)"),
                (None, false) => format!("{column} IS NOT NULL"),
                (None, true) => "0".to_owned(),
            };
            cases.push(equal.iter().cloned().chain([behind]).collect::<Vec<_>>().join(" AND "));
            equal.push(value.map_or_else(|| format!("{column} IS NULL"), |v| format!("{column} = {v}")));
        }
        Ok(format!("({})", cases.iter().map(|c| format!("({c})")).collect::<Vec<_>>().join(" OR ")))
    }
}
