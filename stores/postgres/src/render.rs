//! Renders plans to SQL text.
//!
//! A statement has one text for each set of null arguments: `f = $1` and `f IS NULL` can use an
//! index, but `f IS NOT DISTINCT FROM $1` cannot. [`Native`](super::native::Native) caches the
//! texts.

use tokio_postgres::types::Type;

use linchpin_core::entity::{EntityDesc, FieldDesc, Kind, SoftDelete};
use linchpin_core::filter::{Filter, Linked, Op, Operand, Source};
use linchpin_core::schema::ColumnKind;
use linchpin_core::store::Plan;
use linchpin_core::store::layout::{self, StoredIndex};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::Naming;
use linchpin_sql::replaced::ReplacedField;

/// The source of a parameter (a value, or the argument at a slot) and its SQL type.
#[derive(Clone, Debug)]
pub(super) struct Bind {
    /// `Err` is the slot of an argument.
    pub(super) value: std::result::Result<Value, usize>,
    pub(super) kind: Type,
    pub(super) form: Form,
    /// The field whose earlier value is bound instead of the value.
    pub(super) earlier: Option<Box<ReplacedField>>,
}

/// The form in which a value is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// Case-folded, as the right side of `$contains`.
    Folded,
}

/// A rendered text.
#[derive(Debug)]
pub(super) struct Rendered {
    /// The statement. It returns the columns of the entity. A row of an upsert has one more column
    /// at its end, which is true if the record was created.
    pub(super) sql: String,
    /// The same write without `RETURNING`, for calls that only count.
    pub(super) counting: Option<String>,
    pub(super) binds: Vec<Bind>,
    /// The slots for which a null argument changes the text.
    pub(super) decisive: Vec<usize>,
    /// The fields that also have an earlier column.
    pub(super) replaced: Box<[ReplacedField]>,
}

/// Renders a plan for calls in which exactly the decisive arguments at `nulls` are null.
///
/// # Errors
/// If the plan contains a source that should be an argument.
pub(super) fn render(
    entity: &'static EntityDesc,
    plan: &Plan,
    naming: &Naming,
    nulls: &[usize],
) -> Result<Rendered> {
    let mut r = Renderer::new(entity, naming, nulls, 0);
    let table = r.table();
    let columns = r.columns();
    let (sql, counting) = match plan {
        Plan::Insert => (r.insert()?, None),
        Plan::Select {
            filter,
            order,
            after,
            limit,
        } => (
            r.select(filter, order, after.as_ref(), limit.as_ref())?,
            None,
        ),
        Plan::Related {
            filter,
            field,
            values,
            order,
            limit,
        } => (
            r.related(filter, (*field, *values), order, limit.as_ref())?,
            None,
        ),
        Plan::Chosen {
            filter,
            sql,
            order,
            limit,
        } => (r.chosen(filter, sql, order, limit.as_ref())?, None),
        Plan::Exists { filter } => (
            format!("SELECT 1 FROM {table} WHERE {} LIMIT 1", r.filter(filter)?),
            None,
        ),
        Plan::Hold { filter } => {
            // Marking a record as deleted is an update that changes no key. Such an update does not
            // conflict with the weaker lock.
            let lock = if entity.soft_delete.is_some() {
                "FOR SHARE"
            } else {
                "FOR KEY SHARE"
            };
            (
                format!(
                    "SELECT 1 FROM {table} WHERE {} LIMIT 1 {lock}",
                    r.filter(filter)?
                ),
                None,
            )
        }
        Plan::Lock { filter, pick } => {
            let key = r.column(entity.primary)?;
            (
                format!(
                    "SELECT {columns} FROM {table} WHERE {} ORDER BY {key} FOR UPDATE",
                    r.picked(filter, pick.as_ref())?
                ),
                None,
            )
        }
        Plan::Aggregate {
            filter,
            groups,
            by_value,
            compute,
            limit,
        } => (r.divided(filter, groups, by_value, compute, *limit)?, None),
        Plan::Update { filter, set, pick } => {
            let [with, from, within] = r.figure(set)?.unwrap_or_default();
            let set = r.assignments(set)?;
            let plain = format!(
                "{with}UPDATE {table} SET {set}{from} WHERE {}{within}",
                r.picked(filter, pick.as_ref())?
            );
            (format!("{plain} RETURNING {columns}"), Some(plain))
        }
        Plan::Delete { filter, pick } => {
            let plain = format!(
                "DELETE FROM {table} WHERE {}",
                r.picked(filter, pick.as_ref())?
            );
            (format!("{plain} RETURNING {columns}"), Some(plain))
        }
        Plan::Upsert { keys, filter, set } => (r.upsert(keys, filter, set)?, None),
    };
    Ok(Rendered {
        sql,
        counting,
        binds: r.binds,
        decisive: r.decisive,
        replaced: r.replaced,
    })
}

/// Renders a read of one record that answers many combined calls. Each parameter is a list with one
/// value per call. The last column of a row is the number of its call, from 1. Returns `None` if
/// the plan, or one of its values, cannot be combined.
///
/// # Errors
/// Like [`render`].
pub(super) fn gathered(
    entity: &'static EntityDesc,
    plan: &Plan,
    naming: &Naming,
) -> Result<Option<Rendered>> {
    let (filter, answer) = match plan {
        Plan::Select {
            filter,
            order,
            after: None,
            limit: None,
        } if order.is_empty() => (filter, "r.*, "),
        Plan::Exists { filter } => (filter, ""),
        _ => return Ok(None),
    };
    let mut r = Renderer {
        gathers: true,
        ..Renderer::new(entity, naming, &[], 0)
    };
    let (columns, table) = (
        if answer.is_empty() {
            "1".to_owned()
        } else {
            r.columns()
        },
        r.table(),
    );
    let condition = r.filter(filter)?;
    let lists: Vec<usize> = (0..r.binds.len())
        .filter(|at| r.binds[*at].value.is_err())
        .collect();
    if lists.is_empty()
        || r.binds
            .iter()
            .any(|bind| bind.value.is_err() && array_of(&bind.kind).is_none())
    {
        return Ok(None);
    }
    let calls: Vec<String> = lists.iter().map(|at| format!("${}", at + 1)).collect();
    let names: Vec<String> = lists.iter().map(|at| call_value(at + 1)).collect();
    // The limit does not change the result, but with it the server uses the same access path as for
    // one call.
    let sql = format!(
        "SELECT {answer}{CALLS}.n FROM unnest({}) WITH ORDINALITY AS {CALLS}({}, n) CROSS JOIN LATERAL \
         (SELECT {columns} FROM {table} WHERE {condition} LIMIT 1) AS r",
        calls.join(", "),
        names.join(", ")
    );
    for bind in r.binds.iter_mut().filter(|bind| bind.value.is_err()) {
        bind.kind = array_of(&bind.kind).unwrap_or(Type::UNKNOWN);
    }
    Ok(Some(Rendered {
        sql,
        counting: None,
        binds: r.binds,
        decisive: r.decisive,
        replaced: r.replaced,
    }))
}

/// The relation of the combined calls. No table has this name, because names of entities contain no
/// spaces.
const CALLS: &str = "\"linchpin calls\"";

/// The column of a call's value in a combined statement.
fn call_value(parameter: usize) -> String {
    format!("v{parameter}")
}

/// The array type of a type; `None` for lists and documents.
fn array_of(kind: &Type) -> Option<Type> {
    Some(match *kind {
        Type::TEXT => Type::TEXT_ARRAY,
        Type::BOOL => Type::BOOL_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::FLOAT8 => Type::FLOAT8_ARRAY,
        Type::TIMESTAMPTZ => Type::TIMESTAMPTZ_ARRAY,
        _ => return None,
    })
}

/// A condition with literal values, for the application's own SQL that already has parameters `$1`
/// to `$before`.
///
/// # Errors
/// If the filter contains an argument.
pub(super) fn condition(
    entity: &'static EntityDesc,
    filter: &Filter,
    naming: &Naming,
    before: usize,
) -> Result<(String, Vec<Bind>)> {
    let mut r = Renderer::new(entity, naming, &[], before);
    Ok((r.filter(filter)?, r.binds))
}

/// The type of a field's values.
pub(super) fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::String | Kind::Enum(_) => Type::TEXT,
        Kind::Boolean => Type::BOOL,
        Kind::Integer => Type::INT8,
        Kind::Number => Type::FLOAT8,
        Kind::Date => Type::TIMESTAMPTZ,
        Kind::StringArray => Type::TEXT_ARRAY,
        Kind::Json | Kind::Items(_) => Type::JSONB,
    }
}

/// The type of a column's values.
pub(super) fn type_of_column(kind: &ColumnKind) -> Type {
    match kind {
        ColumnKind::String | ColumnKind::Enum(_) => Type::TEXT,
        ColumnKind::Boolean => Type::BOOL,
        ColumnKind::Integer => Type::INT8,
        ColumnKind::Number => Type::FLOAT8,
        ColumnKind::Date => Type::TIMESTAMPTZ,
        ColumnKind::StringArray => Type::TEXT_ARRAY,
        ColumnKind::Json => Type::JSONB,
    }
}

/// The type of a list of a field's values.
pub(super) fn list_of(kind: Kind) -> Result<Type> {
    array_of(&type_of(kind))
        .ok_or_else(|| Error::internal("the elements of a list must be scalars"))
}

/// The direction of a key of an index or an order. Null is the smallest value. For a key without
/// nulls no `NULLS` clause is added, so that the index of the primary key can also be used.
pub(super) fn direction(optional: bool, desc: bool) -> &'static str {
    match (optional, desc) {
        (false, false) => "ASC",
        (false, true) => "DESC",
        (true, false) => "ASC NULLS FIRST",
        (true, true) => "DESC NULLS LAST",
    }
}

/// The earlier column of a field, and the column with the copy of its value.
pub(super) fn earlier_columns(replaced: &ReplacedField) -> (String, String) {
    (
        quote(&replaced.columns.old),
        quote(&replaced.columns.source),
    )
}

/// A name in SQL; doubling the quotes makes every name legal.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text that is fixed in a declaration. Backslashes are literal: the store enables
/// `standard_conforming_strings`.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) struct Renderer<'a> {
    pub(super) entity: &'static EntityDesc,
    pub(super) naming: &'a Naming,
    /// The qualifier of its columns: the name of its table.
    scope: String,
    /// The number of aliases used for other tables.
    links: usize,
    nulls: &'a [usize],
    /// The number of parameters before those of this text.
    before: usize,
    /// Whether arguments are columns of the combined calls.
    gathers: bool,
    /// The fields of its entity that also have an earlier column.
    pub(super) replaced: Box<[ReplacedField]>,
    binds: Vec<Bind>,
    decisive: Vec<usize>,
}

impl<'a> Renderer<'a> {
    fn new(
        entity: &'static EntityDesc,
        naming: &'a Naming,
        nulls: &'a [usize],
        before: usize,
    ) -> Self {
        Self {
            entity,
            naming,
            scope: quote(naming.table(entity)),
            links: 0,
            nulls,
            before,
            gathers: false,
            replaced: naming.replaced_fields(entity),
            binds: Vec::new(),
            decisive: Vec::new(),
        }
    }
}

impl Renderer<'_> {
    /// The table of the entity.
    pub(super) fn table(&self) -> String {
        quote(self.naming.table(self.entity))
    }

    fn column_of(&self, field: &FieldDesc) -> String {
        quote(self.naming.column(self.entity, field))
    }

    /// The condition that a record is not marked as deleted; `None` if deleted records are removed.
    fn live(&self) -> Option<String> {
        let soft_delete = self.entity.soft_delete?;
        let field = self.entity.fields.get(soft_delete.field())?;
        let column = self.column_of(field);
        Some(match soft_delete {
            SoftDelete::At(_) => format!("{column} IS NULL"),
            SoftDelete::Is(_, mark) => {
                // The name of a variant, fixed in the declaration.
                let mark = match mark() {
                    Value::Text(text) => literal(&text),
                    _ => "''".to_owned(),
                };
                format!(
                    "{column} {} {mark}",
                    if field.optional {
                        "IS DISTINCT FROM"
                    } else {
                        "<>"
                    }
                )
            }
        })
    }

    /// The condition of a partial index; empty if it contains all records.
    pub(super) fn index_condition(&self, index: &StoredIndex) -> String {
        let live = index.live.then(|| self.live()).flatten();
        let null = index
            .null
            .map(|field| format!("{} IS NULL", self.column_of(&self.entity.fields[field])));
        let conditions: Vec<String> = live.into_iter().chain(null).collect();
        if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        }
    }

    /// Renders a part with the columns of another table, under an alias.
    pub(super) fn over<T>(
        &mut self,
        entity: &'static EntityDesc,
        scope: String,
        part: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let replaced = self.naming.replaced_fields(entity);
        let outer = (
            std::mem::replace(&mut self.entity, entity),
            std::mem::replace(&mut self.scope, scope),
            std::mem::replace(&mut self.replaced, replaced),
        );
        let rendered = part(self);
        (self.entity, self.scope, self.replaced) = outer;
        rendered
    }

    /// The condition that a related record exists.
    fn linked(&mut self, linked: &Linked) -> Result<String> {
        let own = self.column(linked.field)?;
        self.links += 1;
        let (table, alias) = (
            quote(self.naming.table(linked.of)),
            quote(&format!("linchpin {}", self.links)),
        );
        self.over(linked.of, alias.clone(), |r| {
            Ok(format!(
                "EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {} = {own} AND {})",
                r.column(linked.at)?,
                r.filter(&linked.filter)?
            ))
        })
    }

    /// The columns of a row, as [`PgRow`](super::row::PgRow) reads it.
    pub(super) fn columns(&self) -> String {
        let (table, fields) = (self.table(), self.entity.fields);
        let column = |name: String| format!("{table}.{name}");
        let mut all: Vec<String> = fields.iter().map(|f| column(self.column_of(f))).collect();
        for replaced in &self.replaced {
            let next = &all[replaced.field];
            let (old, source) = earlier_columns(replaced);
            all.push(replaced.added([next, &column(old), &column(source)]));
        }
        all.join(", ")
    }

    /// The quoted column, without table, of a field that a statement compares or computes.
    pub(super) fn name(&self, field: usize) -> Result<String> {
        let name = self.written(field)?;
        self.naming
            .refuse_replaced(self.entity, &self.entity.fields[field])?;
        Ok(name)
    }

    /// The quoted column, without table, of a field that a statement writes.
    pub(super) fn written(&self, field: usize) -> Result<String> {
        self.entity
            .fields
            .get(field)
            .map(|f| self.column_of(f))
            .ok_or_else(|| Error::internal("a plan names a field that does not exist"))
    }

    /// A column of the stored record, with its table, because an upsert also has the columns of the
    /// proposed record.
    pub(super) fn column(&self, field: usize) -> Result<String> {
        Ok(format!("{}.{}", self.scope, self.name(field)?))
    }

    pub(super) fn kind(&self, field: usize) -> Type {
        self.entity
            .fields
            .get(field)
            .map_or(Type::TEXT, |f| type_of(f.kind))
    }

    pub(super) fn parameter(
        &mut self,
        value: std::result::Result<Value, usize>,
        kind: Type,
    ) -> String {
        self.bind(value, kind, Form::Plain)
    }

    /// Adds a parameter with a value of a field, converted to the earlier type of the field.
    pub(super) fn earlier(
        &mut self,
        value: std::result::Result<Value, usize>,
        replaced: &ReplacedField,
    ) -> String {
        let kind = type_of_column(&replaced.columns.kind);
        let parameter = self.bind(value, kind, Form::Plain);
        if let Some(bind) = self.binds.last_mut() {
            bind.earlier = Some(Box::new(replaced.clone()));
        }
        parameter
    }

    fn bind(&mut self, value: std::result::Result<Value, usize>, kind: Type, form: Form) -> String {
        let of_call = self.gathers && value.is_err();
        self.binds.push(Bind {
            value,
            kind,
            form,
            earlier: None,
        });
        let parameter = self.before + self.binds.len();
        if of_call {
            format!("{CALLS}.{}", call_value(parameter))
        } else {
            format!("${parameter}")
        }
    }

    pub(super) fn source(&mut self, source: &Source, kind: Type) -> Result<String> {
        self.source_as(source, kind, Form::Plain)
    }

    fn source_as(&mut self, source: &Source, kind: Type, form: Form) -> Result<String> {
        match source {
            Source::Value(value) => Ok(self.bind(Ok(value.clone()), kind, form)),
            Source::Arg { index, .. } => Ok(self.bind(Err(*index), kind, form)),
            other => Err(Error::internal(format!(
                "a plan contains {other:?} instead of an argument"
            ))),
        }
    }

    /// Whether an argument is null in the calls of this text.
    pub(super) fn slot_is_null(&mut self, slot: usize) -> bool {
        if !self.decisive.contains(&slot) {
            self.decisive.push(slot);
        }
        self.nulls.contains(&slot)
    }

    /// Like `lacks`, but does not check an argument that is not nullable: it is never null, so the
    /// statement needs no other text for it.
    fn is_null(&mut self, source: &Source) -> bool {
        match source {
            Source::Value(value) => value.is_null(),
            Source::Arg {
                index,
                nullable: true,
            } => self.slot_is_null(*index),
            _ => false,
        }
    }

    /// Whether a source is null in the calls of this text.
    fn lacks(&mut self, source: &Source) -> bool {
        match source {
            Source::Arg { index, .. } => self.slot_is_null(*index),
            source => self.is_null(source),
        }
    }

    pub(super) fn filter(&mut self, filter: &Filter) -> Result<String> {
        match filter {
            Filter::All(list) if list.is_empty() => Ok("TRUE".to_owned()),
            Filter::Any(list) if list.is_empty() => Ok("FALSE".to_owned()),
            Filter::All(list) => self.join(list, " AND "),
            Filter::Any(list) => self.join(list, " OR "),
            // This is the exact condition of the partial indexes, so that the server can use these
            // indexes.
            Filter::Cond { .. } if layout::is_live(self.entity, filter) => {
                Ok(self.qualified_live())
            }
            Filter::Cond { field, op, value } => self.condition(*field, *op, value),
            Filter::Item {
                field,
                key,
                value,
                must_exist,
            } => {
                let (column, key) = (self.column(*field)?, literal(key));
                let value = self.source(value, Type::JSONB)?;
                let there = format!(
                    "EXISTS (SELECT 1 FROM jsonb_array_elements(COALESCE({column}, '[]'::jsonb)) AS e(v) WHERE e.v -> {key} = {value})"
                );
                Ok(if *must_exist {
                    there
                } else {
                    format!("NOT {there}")
                })
            }
            Filter::Linked(linked) => self.linked(linked),
            // If the value is null, the call has another text.
            Filter::Given(source) => {
                Ok(if self.lacks(source) { "FALSE" } else { "TRUE" }.to_owned())
            }
        }
    }

    /// The condition of live records, qualified with the table.
    fn qualified_live(&self) -> String {
        self.live().map_or_else(
            || "TRUE".to_owned(),
            |text| format!("{}.{text}", self.scope),
        )
    }

    fn join(&mut self, list: &[Filter], operator: &str) -> Result<String> {
        let parts: Vec<String> = list.iter().map(|f| self.filter(f)).collect::<Result<_>>()?;
        Ok(if parts.len() == 1 {
            parts.concat()
        } else {
            format!("({})", parts.join(operator))
        })
    }

    // Two-valued logic: a comparison with null is false. SQL returns NULL, which counts as false,
    // because conditions are never negated here. `$ne` and `$nin` are true for null.
    fn condition(&mut self, field: usize, op: Op, value: &Operand) -> Result<String> {
        let column = self.column(field)?;
        let (desc, kind) = (&self.entity.fields[field], self.kind(field));
        let one = match value {
            Operand::List(list) => return self.list(field, op, list),
            Operand::One(source) => source,
        };
        Ok(match op {
            Op::Eq if self.is_null(one) => format!("{column} IS NULL"),
            Op::Eq => format!("{column} = {}", self.source(one, kind)?),
            Op::Ne if self.is_null(one) => format!("{column} IS NOT NULL"),
            Op::Ne if desc.optional => {
                format!("{column} IS DISTINCT FROM {}", self.source(one, kind)?)
            }
            Op::Ne => format!("{column} <> {}", self.source(one, kind)?),
            Op::Gt => format!("{column} > {}", self.source(one, kind)?),
            Op::Gte => format!("{column} >= {}", self.source(one, kind)?),
            Op::Lt => format!("{column} < {}", self.source(one, kind)?),
            Op::Lte => format!("{column} <= {}", self.source(one, kind)?),
            Op::In => format!("{column} = ANY({})", self.source(one, list_of(desc.kind)?)?),
            Op::Nin => format!(
                "({column} IS NULL OR {column} <> ALL({}))",
                self.source(one, list_of(desc.kind)?)?
            ),
            Op::Contains => format!(
                "strpos({FOLD}({column}), {}) > 0",
                self.source_as(one, Type::TEXT, Form::Folded)?
            ),
            Op::Shorter | Op::Longer => {
                let length = match desc.kind {
                    Kind::StringArray => format!("COALESCE(cardinality({column}), 0)"),
                    _ => format!("jsonb_array_length(COALESCE({column}, '[]'::jsonb))"),
                };
                let sign = if op == Op::Shorter { '<' } else { '>' };
                format!("{length} {sign} {}", self.source(one, Type::INT8)?)
            }
            Op::Has => format!("{column} @> ARRAY[{}]", self.source(one, Type::TEXT)?),
        })
    }

    fn list(&mut self, field: usize, op: Op, list: &[Source]) -> Result<String> {
        let (column, kind) = (self.column(field)?, self.kind(field));
        let mut values = Vec::with_capacity(list.len());
        let mut null = false;
        for source in list {
            if self.is_null(source) {
                null = true;
            } else {
                values.push(self.source(source, kind.clone())?);
            }
        }
        let values = (!values.is_empty()).then(|| values.join(", "));
        Ok(match (op, values, null) {
            (Op::In, None, false) => "FALSE".to_owned(),
            (Op::In, None, true) => format!("{column} IS NULL"),
            (Op::In, Some(values), false) => format!("{column} IN ({values})"),
            (Op::In, Some(values), true) => format!("({column} IN ({values}) OR {column} IS NULL)"),
            (Op::Nin, None, false) => "TRUE".to_owned(),
            (Op::Nin, None, true) => format!("{column} IS NOT NULL"),
            (Op::Nin, Some(values), false) => {
                format!("({column} NOT IN ({values}) OR {column} IS NULL)")
            }
            (Op::Nin, Some(values), true) => {
                format!("({column} NOT IN ({values}) AND {column} IS NOT NULL)")
            }
            _ => return Err(Error::internal("only $in and $nin accept lists")),
        })
    }
}

/// The database function that folds case like [`fold`](linchpin_core::filter::eval::fold). The
/// set-up of the schema creates it.
pub(super) const FOLD: &str = "linchpin_fold";
