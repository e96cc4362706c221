//! The storage facts of entities, as plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::physical::{Column, ColumnKind, Index, IndexKey, Only, Table};
use crate::entity::{
    DefaultDesc, EntityDesc, FieldDesc, Kind, Link, OnDelete, SoftDelete, Summary,
};
use crate::filter::Filter;
use crate::layout::{self, StoredIndex};
use crate::{Timestamp, Value};

/// The storage facts of all entities, as a migration records them. Policies, routes, validation and
/// descriptions are not part of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// The version of this form: [`Snapshot::FORMAT`].
    pub format: u32,
    /// The entities by storage name.
    pub entities: BTreeMap<String, EntitySnapshot>,
}

/// The storage facts of an entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntitySnapshot {
    /// `Post`.
    pub name: String,
    /// The name of the table.
    pub storage_name: String,
    /// Earlier storage names whose renames have been recorded, oldest first.
    pub former_names: Vec<String>,
    /// The field of the primary key.
    pub primary: String,
    /// The fields by name.
    pub fields: BTreeMap<String, FieldSnapshot>,
    /// The indexes that are not unique, sorted by name.
    pub indexes: Vec<IndexSnapshot>,
    /// The unique indexes. A database reports the first violated one, so their order is kept.
    pub uniques: Vec<IndexSnapshot>,
    /// The counters of this entity's records that are stored in records of other entities.
    pub counters: Vec<CounterSnapshot>,
    /// The fields that must name an existing record of another entity: gates and enforced
    /// relations.
    pub checks: Vec<ReferenceSnapshot>,
    /// How deleted records are marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_delete: Option<SoftDeleteSnapshot>,
    /// When records expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<TtlSnapshot>,
    /// The tenant of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantSnapshot>,
    /// The version counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionSnapshot>,
}

/// The storage facts of a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldSnapshot {
    /// `string`, `integer`, `enum` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the column.
    pub column: String,
    /// Whether it may be null.
    pub optional: bool,
    /// The values of an enum, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// The members of the objects of an item list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<BTreeMap<String, ItemSnapshot>>,
    /// The stored default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<FieldDefault>,
    /// The function that computes the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<ComputedSnapshot>,
    /// Earlier names whose renames have been recorded, oldest first.
    pub former_names: Vec<String>,
}

/// A member of the objects of an item list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ItemSnapshot {
    /// `string`, `integer`, `enum` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it may be null.
    pub optional: bool,
    /// The values of an enum, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// The members of nested objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<BTreeMap<String, ItemSnapshot>>,
}

/// A default that does not depend on the caller: a literal or a generated value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum FieldDefault {
    /// A literal, as JSON: `{"literal": 0}`.
    Literal {
        /// The value; see [`value_of`].
        literal: Json,
    },
    /// A generated value: `{"kind": "uuid"}`, `cuid` or `now`.
    Generated {
        /// The generator: `uuid`, `cuid` or `now`.
        kind: String,
    },
}

/// The function of a computed field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComputedSnapshot {
    /// The fields that the value depends on, sorted. Empty means all fields that are not computed.
    pub inputs: Vec<String>,
    /// The hash of the function's text; empty if the function does not record one.
    pub body: String,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IndexSnapshot {
    /// The name in the database.
    pub name: String,
    /// The indexed fields, in order.
    pub keys: Vec<KeySnapshot>,
    /// Whether it contains only records that are not deleted.
    pub live: bool,
    /// If set, it contains only records with null in this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<String>,
}

/// A key of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeySnapshot {
    /// The name of the field.
    pub field: String,
    /// Whether the order is descending.
    pub desc: bool,
}

/// A counter in the records of another entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CounterSnapshot {
    /// The storage name of the entity that stores the counter.
    pub target: String,
    /// The field that stores it.
    pub field: String,
    /// The field of this entity that names the record with the counter.
    pub by: String,
    /// The condition that a record must meet to be counted, in its JSON form.
    pub when: Json,
}

/// A field that names a record of another entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceSnapshot {
    /// The field.
    pub field: String,
    /// The storage name of the other entity.
    pub target: String,
    /// The effect of deleting the other record; absent for a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<String>,
}

/// How deleted records are marked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SoftDeleteSnapshot {
    /// The field of the mark.
    pub field: String,
    /// The enum value that marks a deleted record. It is absent for a date field, in which any date
    /// marks the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// When records expire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TtlSnapshot {
    /// The date field.
    pub field: String,
    /// Milliseconds after the last change; absent if the app writes the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The tenant of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantSnapshot {
    /// The field.
    pub field: String,
}

/// The version counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VersionSnapshot {
    /// The field.
    pub field: String,
}

impl Snapshot {
    /// The version of the form that this build reads and writes.
    pub const FORMAT: u32 = 2;

    /// A snapshot without entities.
    pub const fn empty() -> Self {
        Self {
            format: Self::FORMAT,
            entities: BTreeMap::new(),
        }
    }

    /// Returns the storage facts of declarations.
    pub fn of<'d>(entities: impl IntoIterator<Item = &'d EntityDesc>) -> Self {
        Self {
            format: Self::FORMAT,
            entities: entities
                .into_iter()
                .map(|desc| (desc.storage_name.to_owned(), EntitySnapshot::of(desc)))
                .collect(),
        }
    }

    /// Returns the tables that the snapshot describes, by name.
    pub fn tables(&self) -> BTreeMap<String, Table> {
        self.entities
            .values()
            .map(|entity| (entity.storage_name.clone(), entity.table()))
            .collect()
    }
}

impl EntitySnapshot {
    /// Returns the storage facts of a declaration.
    pub fn of(desc: &EntityDesc) -> Self {
        let name = |at: usize| desc.fields[at].name.to_owned();
        let stored = layout::indexes(desc);
        let index_snapshot = |index: &StoredIndex| IndexSnapshot {
            name: index.name(desc),
            keys: index
                .keys
                .iter()
                .map(|key| KeySnapshot {
                    field: name(key.field),
                    desc: key.desc,
                })
                .collect(),
            live: index.live,
            null: index.null.map(name),
        };
        let (uniques, mut indexes): (Vec<_>, Vec<_>) = {
            let (unique, plain): (Vec<_>, Vec<_>) = stored.iter().partition(|i| i.unique);
            let all = |list: Vec<&StoredIndex>| list.into_iter().map(index_snapshot).collect();
            (all(unique), all(plain))
        };
        indexes.sort_by(|a: &IndexSnapshot, b| a.name.cmp(&b.name));
        let mut counters: Vec<_> = desc.summaries.iter().map(|s| counter(desc, s)).collect();
        counters.sort_by(|a, b| (&a.target, &a.field).cmp(&(&b.target, &b.field)));
        Self {
            name: desc.name.to_owned(),
            storage_name: desc.storage_name.to_owned(),
            former_names: Vec::new(),
            primary: name(desc.primary),
            fields: desc
                .fields
                .iter()
                .map(|field| (field.name.to_owned(), FieldSnapshot::of(desc, field)))
                .collect(),
            indexes,
            uniques,
            counters,
            checks: references(desc),
            soft_delete: desc.soft_delete.as_ref().map(|mark| match mark {
                SoftDelete::At(field) => SoftDeleteSnapshot {
                    field: name(*field),
                    value: None,
                },
                SoftDelete::Is(field, value) => SoftDeleteSnapshot {
                    field: name(*field),
                    value: value().as_text().map(str::to_owned),
                },
            }),
            ttl: desc.ttl.map(|ttl| TtlSnapshot {
                field: name(ttl.field),
                after: ttl.after,
            }),
            tenant: desc.tenant.map(|tenant| TenantSnapshot {
                field: name(tenant.field),
            }),
            version: desc.version.map(|version| VersionSnapshot {
                field: name(version.field),
            }),
        }
    }

    /// Returns the physical table. The column of the primary key comes first, then the others by
    /// the name of their field.
    pub fn table(&self) -> Table {
        let column = |field: &str| {
            self.fields
                .get(field)
                .map_or_else(|| field.to_owned(), |f| f.column.clone())
        };
        let mut columns: Vec<Column> = Vec::with_capacity(self.fields.len());
        let first = self.fields.get_key_value(&self.primary);
        let others = self
            .fields
            .iter()
            .filter(|(name, _)| **name != self.primary);
        columns.extend(first.into_iter().chain(others).map(|(_, f)| f.column()));
        let live = self.soft_delete.as_ref().map(|mark| match &mark.value {
            None => Only::Null(column(&mark.field)),
            Some(value) => Only::Differs(column(&mark.field), value.clone()),
        });
        let index = |index: &IndexSnapshot, unique| Index {
            name: index.name.clone(),
            unique,
            keys: index
                .keys
                .iter()
                .map(|key| IndexKey {
                    column: column(&key.field),
                    desc: key.desc,
                })
                .collect(),
            only: index
                .live
                .then(|| live.clone())
                .flatten()
                .into_iter()
                .chain(index.null.as_ref().map(|field| Only::Null(column(field))))
                .collect(),
        };
        let uniques = self.uniques.iter().map(|unique| index(unique, true));
        let plain = self.indexes.iter().map(|plain| index(plain, false));
        Table {
            name: self.storage_name.clone(),
            primary: column(&self.primary),
            columns,
            indexes: uniques.chain(plain).collect(),
            checks: Vec::new(),
        }
    }
}

impl FieldSnapshot {
    fn of(desc: &EntityDesc, field: &FieldDesc) -> Self {
        let (values, item) = shape(field.kind);
        Self {
            kind: field.kind.name().to_owned(),
            column: field.column.to_owned(),
            optional: field.optional,
            values,
            item,
            default: match field.default {
                DefaultDesc::Uuid => Some(FieldDefault::generated("uuid")),
                DefaultDesc::Cuid => Some(FieldDefault::generated("cuid")),
                DefaultDesc::Now => Some(FieldDefault::generated("now")),
                DefaultDesc::Literal(value) => Some(FieldDefault::Literal {
                    literal: literal_of(&value()),
                }),
                DefaultDesc::None | DefaultDesc::Ctx(_) => None,
            },
            computed: field.computed.map(|computed| {
                let mut inputs: Vec<String> = computed
                    .from
                    .iter()
                    .map(|at| desc.fields[*at].name.to_owned())
                    .collect();
                inputs.sort();
                ComputedSnapshot {
                    inputs,
                    body: computed.body.to_owned(),
                }
            }),
            former_names: Vec::new(),
        }
    }

    /// Returns the kind of the column. An unknown type, which only a damaged snapshot has, is text.
    pub fn column_kind(&self) -> ColumnKind {
        match self.kind.as_str() {
            "boolean" => ColumnKind::Boolean,
            "integer" => ColumnKind::Integer,
            "number" => ColumnKind::Number,
            "date" => ColumnKind::Date,
            "enum" => ColumnKind::Enum(self.values.clone().unwrap_or_default()),
            "string_array" => ColumnKind::StringArray,
            "json" | "items" => ColumnKind::Json,
            _ => ColumnKind::String,
        }
    }

    /// Returns the literal default as a value; `None` without one.
    pub fn literal(&self) -> Option<Value> {
        match &self.default {
            Some(FieldDefault::Literal { literal }) => value_of(literal, &self.column_kind()),
            _ => None,
        }
    }

    /// Returns the column. A literal default of a required field is the default of its column.
    pub fn column(&self) -> Column {
        Column {
            name: self.column.clone(),
            kind: self.column_kind(),
            optional: self.optional,
            default: self.literal().filter(|_| !self.optional),
        }
    }
}

impl FieldDefault {
    fn generated(kind: &str) -> Self {
        Self::Generated {
            kind: kind.to_owned(),
        }
    }
}

/// The values of an enum, and the members of an item list.
fn shape(kind: Kind) -> (Option<Vec<String>>, Option<BTreeMap<String, ItemSnapshot>>) {
    match kind {
        Kind::Enum(desc) => {
            let mut values: Vec<String> = desc
                .variants
                .iter()
                .map(|&value| value.to_owned())
                .collect();
            values.sort();
            (Some(values), None)
        }
        Kind::Items(fields) => {
            let member = |field: &FieldDesc| {
                let (values, item) = shape(field.kind);
                let member = ItemSnapshot {
                    kind: field.kind.name().to_owned(),
                    optional: field.optional,
                    values,
                    item,
                };
                (field.wire.to_owned(), member)
            };
            (None, Some(fields.iter().map(member).collect()))
        }
        _ => (None, None),
    }
}

fn counter(desc: &EntityDesc, summary: &Summary) -> CounterSnapshot {
    CounterSnapshot {
        target: (summary.target)().storage_name.to_owned(),
        field: summary.field.to_owned(),
        by: desc.fields[summary.by].name.to_owned(),
        when: Filter::from(&summary.when).to_json(desc, &[]),
    }
}

fn references(desc: &EntityDesc) -> Vec<ReferenceSnapshot> {
    let relations = desc.relations.iter().filter_map(|relation| {
        let Link::BelongsTo { key, on_delete } = relation.link else {
            return None;
        };
        let on_delete = match on_delete {
            OnDelete::None => return None,
            OnDelete::Restrict => "restrict",
            OnDelete::SetNull => "setNull",
            OnDelete::Cascade => "cascade",
        };
        Some((key, (relation.target)(), Some(on_delete.to_owned())))
    });
    let gates = desc
        .gates
        .iter()
        .map(|gate| (gate.field, gate.target, None));
    let mut all: Vec<_> = relations
        .chain(gates)
        .map(|(field, target, on_delete)| ReferenceSnapshot {
            field: desc.fields[field].name.to_owned(),
            target: target.storage_name.to_owned(),
            on_delete,
        })
        .collect();
    all.sort_by(|a, b| {
        (&a.field, &a.target, &a.on_delete).cmp(&(&b.field, &b.target, &b.on_delete))
    });
    all.dedup();
    all
}

/// Returns the JSON form of a value. Dates are RFC 3339 texts.
pub fn literal_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::from(*i),
        Value::Float(f) => Json::from(*f),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Date(date) => Json::from(date.to_string()),
        Value::Strings(list) => Json::from(list.as_slice()),
        Value::Json(text) => serde_json::from_str(text).unwrap_or(Json::Null),
    }
}

/// Reads the JSON form of a value of a column; `None` if the column cannot hold it.
pub fn value_of(json: &Json, kind: &ColumnKind) -> Option<Value> {
    match (kind, json) {
        (_, Json::Null) => Some(Value::Null),
        (ColumnKind::Boolean, Json::Bool(b)) => Some(Value::Bool(*b)),
        (ColumnKind::Integer, Json::Number(n)) => n.as_i64().map(Value::Int),
        (ColumnKind::Number, Json::Number(n)) => n.as_f64().map(Value::Float),
        (ColumnKind::String | ColumnKind::Enum(_), Json::String(text)) => {
            Some(Value::Text(text.clone()))
        }
        (ColumnKind::Date, Json::String(text)) => Timestamp::parse(text).ok().map(Value::Date),
        (ColumnKind::StringArray, Json::Array(list)) => list
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .map(Value::Strings),
        (ColumnKind::Json, json) => Some(Value::Json(json.to_string())),
        _ => None,
    }
}
