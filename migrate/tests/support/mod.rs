//! Snapshots, chains and transforms for the test programs of this folder.
#![allow(dead_code)] // each program uses its part

pub mod people;

use linchpin_core::entity::{
    Kind, SourceLine, TransformDesc, TransformError, TransformFn, TransformFrom, TransformInput,
    TransformType,
};
use linchpin_core::schema::Snapshot;
use linchpin_core::{Value, ValueRef};
use linchpin_migrate::{Chain, Change, Declared, Migration, TransformRecord, digest_of};
use serde_json::{Value as Json, json};

/// The digest of a function's tokens.
pub const BODY: &str = "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f";

/// A function that converts a required field from one kind to another, without a reverse.
pub const fn function(
    name: &'static str,
    body: &'static str,
    (from, to): (Kind, Kind),
    run: TransformFn,
) -> TransformDesc {
    TransformDesc {
        name,
        from: TransformFrom::Value(required(from)),
        to: required(to),
        body,
        reverse: None,
        run,
        at: SourceLine {
            file: "src/users.rs",
            line: 7,
        },
    }
}

const fn required(kind: Kind) -> TransformType {
    TransformType {
        kind,
        optional: false,
    }
}

/// Converts a number to a text.
pub fn to_text(input: TransformInput<'_>) -> Result<Value, TransformError> {
    match input {
        TransformInput::Value(ValueRef::Int(n)) => Ok(Value::Text(format!("{n} visits"))),
        _ => Err("no number".into()),
    }
}

/// The record of a function in a migration.
pub fn recorded(function: &TransformDesc) -> TransformRecord {
    let TransformFrom::Value(from) = function.from else {
        panic!("a function of one value");
    };
    TransformRecord {
        name: function.name.to_owned(),
        from: from.kind.name().to_owned(),
        to: function.to.kind.name().to_owned(),
        body: function.body.to_owned(),
    }
}

/// A link of a chain.
#[derive(Clone)]
pub struct Link {
    pub snapshot: Snapshot,
    pub changes: Vec<Change>,
    pub transforms: Vec<TransformRecord>,
}

impl Link {
    /// A link without functions.
    pub fn plain(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            changes: Vec::new(),
            transforms: Vec::new(),
        }
    }

    /// A link whose function, and the reverse if there is one, convert a field.
    pub fn converted(
        snapshot: Snapshot,
        (entity, field): (&str, &str),
        function: &TransformDesc,
    ) -> Self {
        let change = Change::ChangeType {
            entity: entity.to_owned(),
            field: field.to_owned(),
            transform: function.name.to_owned(),
            reverse: function.reverse.map(|reverse| reverse.name.to_owned()),
        };
        Self {
            snapshot,
            changes: vec![change],
            transforms: std::iter::once(function)
                .chain(function.reverse)
                .map(recorded)
                .collect(),
        }
    }
}

/// The chain of these links.
pub fn chain(links: impl IntoIterator<Item = Link>) -> Chain {
    let mut parent = None;
    let migrations = links.into_iter().zip(1..).map(|(link, seq)| {
        let digest = digest_of(&link.snapshot);
        Migration {
            format: Snapshot::FORMAT,
            seq,
            name: format!("change_{seq}"),
            parent: parent.replace(digest.clone()),
            snapshot: link.snapshot,
            snapshot_digest: digest,
            changes: link.changes,
            transforms: link.transforms,
        }
    });
    Chain::new(migrations.collect()).expect("a chain")
}

/// The declarations of an app at the head of a chain, with these functions.
pub fn declared(chain: &Chain, transforms: &[&'static TransformDesc]) -> Declared {
    Declared {
        own_sql: Vec::new(),
        operations: Vec::new(),
        app: "test".to_owned(),
        entities: Vec::new(),
        system: Vec::new(),
        transforms: transforms.to_vec(),
        snapshot: chain.snapshot(),
    }
}

/// A snapshot of entities. Each has its storage name, its fields (the field `id` is added if it is
/// missing), and the members that differ from those of an entity without indexes.
pub fn snapshot(entities: &[(&str, Json, Json)]) -> Snapshot {
    let mut all = serde_json::Map::new();
    for (name, fields, others) in entities {
        let mut complete = serde_json::Map::new();
        let given = fields.as_object().expect("an object").clone();
        let key = json!({ "type": "string", "default": { "kind": "uuid" } });
        let key = [("id".to_owned(), key)];
        let key = key.into_iter().filter(|_| !given.contains_key("id"));
        for (name, mut field) in given.clone().into_iter().chain(key) {
            let facts = field.as_object_mut().expect("an object");
            facts.entry("column").or_insert(json!(name));
            facts.entry("optional").or_insert(json!(false));
            facts.entry("formerNames").or_insert(json!([]));
            complete.insert(name, field);
        }
        let mut entity = json!({
            "name": name, "storageName": name, "formerNames": [], "primary": "id",
            "fields": complete, "indexes": [], "uniques": [], "counters": [], "checks": [],
        });
        let members = entity.as_object_mut().expect("an object");
        for (key, value) in others.as_object().expect("an object") {
            members.insert(key.clone(), value.clone());
        }
        all.insert((*name).to_owned(), entity);
    }
    serde_json::from_value(json!({ "format": 2, "entities": all })).expect("a snapshot")
}

/// An index of a snapshot.
pub fn index(name: &str, fields: &[&str]) -> Json {
    let keys: Vec<Json> = fields
        .iter()
        .map(|field| json!({ "field": field, "desc": false }))
        .collect();
    json!({ "name": name, "keys": keys, "live": false })
}
