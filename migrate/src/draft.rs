//! The changes that a development start applies to a database. It only adds objects.

use linchpin_core::schema::{EntitySnapshot, FieldSnapshot, Snapshot};

use crate::pairs::{self, EntityPair, FieldPair};

/// Returns the snapshot to which a development start migrates a database: `before` with everything
/// that `after` adds. Nothing is removed, renamed or narrowed.
pub(crate) fn additive(before: &Snapshot, after: &Snapshot) -> Snapshot {
    let mut between = Snapshot::empty();
    for pair in pairs::entities(before, after) {
        let entity = match pair {
            EntityPair::New(entity) => {
                // The name may still belong to a table that a later migration renames.
                if before.entities.contains_key(&entity.storage_name) {
                    continue;
                }
                entity.clone()
            }
            EntityPair::Gone(entity) => entity.clone(),
            EntityPair::Kept { before, after } => merged(before, after),
        };
        between.entities.insert(entity.storage_name.clone(), entity);
    }
    between
}

/// The earlier entity with all that the later one adds.
fn merged(before: &EntitySnapshot, after: &EntitySnapshot) -> EntitySnapshot {
    let mut entity = before.clone();
    entity.name.clone_from(&after.name);
    for pair in pairs::fields(before, after) {
        match pair {
            FieldPair::New(name, field) => {
                let needs_value = !field.optional && field.literal().is_none();
                let field = FieldSnapshot {
                    optional: field.optional || needs_value,
                    former_names: Vec::new(),
                    ..field.clone()
                };
                entity.fields.insert(name.to_owned(), field);
            }
            FieldPair::Kept {
                before: (name, was),
                after: (_, is),
            } if was.kind == is.kind && was.item == is.item => {
                let mut field = was.clone();
                field.optional |= is.optional;
                field.default.clone_from(&is.default);
                if let (Some(values), Some(more)) = (&mut field.values, &is.values) {
                    values.extend(more.iter().cloned());
                    values.sort();
                    values.dedup();
                }
                // A field that becomes required stays optional here, and keeps its earlier default.
                if was.optional && !is.optional {
                    field.default.clone_from(&was.default);
                }
                entity.fields.insert(name.to_owned(), field);
            }
            FieldPair::Kept { .. } | FieldPair::Gone(_) => {}
        }
    }
    let known = |names: &[&str]| names.iter().all(|name| entity.fields.contains_key(*name));
    let has = |name: &str| {
        entity.indexes.iter().any(|i| i.name == name)
            || entity.uniques.iter().any(|i| i.name == name)
    };
    let (mut indexes, mut uniques) = (Vec::new(), Vec::new());
    for (list, from) in [
        (&mut indexes, &after.indexes),
        (&mut uniques, &after.uniques),
    ] {
        for index in from {
            let fields: Vec<&str> = index
                .keys
                .iter()
                .map(|key| key.field.as_str())
                .chain(index.null.as_deref())
                .collect();
            let has_same_mark = after.soft_delete == before.soft_delete || !index.live;
            if known(&fields) && has_same_mark && !has(&index.name) {
                list.push(index.clone());
            }
        }
    }
    entity.indexes.extend(indexes);
    entity.indexes.sort_by(|a, b| a.name.cmp(&b.name));
    entity.uniques.extend(uniques);
    entity.ttl = after
        .ttl
        .clone()
        .filter(|ttl| entity.fields.contains_key(&ttl.field));
    entity
}
