//! The rules on relations that need only the declaration.

use std::collections::HashMap;

use syn::ext::IdentExt;

use super::{OnDelete, Relation, Side};
use crate::diagnostics::Diagnostics;
use crate::entity::check::{kind_text, type_text};
use crate::entity::grants::{TRANSACTION, without};
use crate::entity::{EntityModel, Field, Flag, Kind};
use crate::{names, options};

/// The maximum number of records of one relation in an `include`.
const MAX_INCLUDED: i64 = 1000;

/// Checks the relations of an entity.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    check_names(model, d);
    let mut enforced: HashMap<usize, &Relation> = HashMap::new();
    for relation in &model.relations {
        if let Some(field) = relation.field {
            check_key(relation, &model.fields[field], d);
        }
        check_on_delete(model, relation, d);
        check_max(relation, d);
        let enforced_rule = relation
            .on_delete
            .as_ref()
            .filter(|(_, rule)| *rule != OnDelete::None);
        if let (Some(field), Some((at, _))) = (relation.field, enforced_rule)
            && enforced.insert(field, relation).is_some()
        {
            d.error(
                at,
                format!(
                    "two relations set `on_delete` for the key `{}`",
                    relation.key
                ),
            )
            .help("keep one `on_delete`");
        }
    }
}

/// Checks that the fields and relations of a record have different names.
fn check_names(model: &EntityModel, d: &mut Diagnostics) {
    let mut seen: HashMap<String, String> = HashMap::new();
    for relation in &model.relations {
        let name = relation.name.unraw().to_string();
        let wire = names::camel(&name);
        if wire.is_empty() {
            d.error(
                &relation.name,
                format!("relation `{name}` has no name on the wire"),
            )
            .help("use letters");
        } else if let Some(field) = model.fields.iter().find(|f| f.wire == wire) {
            d.error(
                &relation.name,
                format!(
                    "relation `{name}` and field `{}` share wire name `{wire}`",
                    field.name
                ),
            )
            .help("choose another name for the relation");
        } else if let Some(first) = seen.insert(wire.clone(), name.clone()) {
            d.error(
                &relation.name,
                format!("relations `{first}` and `{name}` share wire name `{wire}`"),
            )
            .help("rename one of them");
        }
    }
}

fn check_key(relation: &Relation, field: &Field, d: &mut Diagnostics) {
    let (key, name) = (&relation.key, &field.name);
    if !matches!(
        field.kind,
        Kind::String | Kind::Uuid | Kind::Integer | Kind::Other
    ) {
        d.error(
            key,
            format!(
                "key `{name}` is {}, ids are string or integer",
                kind_text(field)
            ),
        )
        .help("use a field with the type of the other entity's primary key");
    } else if field.generated {
        d.error(
            key,
            format!("`{name}` is the version counter and cannot be a key"),
        )
        .help("use another field as the key");
    }
}

fn check_on_delete(model: &EntityModel, relation: &Relation, d: &mut Diagnostics) {
    let (Some((at, rule)), Some(field)) = (&relation.on_delete, relation.field) else {
        return;
    };
    let field = &model.fields[field];
    if *rule == OnDelete::None {
        return;
    }
    if *rule == OnDelete::SetNull {
        if !field.optional {
            d.error(
                at,
                format!(
                    "`set_null` needs an optional key, `{}` is required",
                    field.name
                ),
            )
            .help(format!(
                "`pub {}: Option<{}>`",
                field.name,
                type_text(&field.inner)
            ));
        } else if field.comes_from_caller() || field.has(Flag::Primary) {
            d.error(
                at,
                format!(
                    "`{}` is the tenant, a scope or the primary key, so it cannot become null",
                    field.name
                ),
            )
            .help("`on_delete = \"cascade\"`");
        }
    }
    for store in model.lacking(TRANSACTION) {
        d.error(
            at,
            format!(
                "on_delete needs a transactional store, which `{}` is not",
                store.name
            ),
        )
        .help(without(store, TRANSACTION, "are transactional"));
    }
}

fn check_max(relation: &Relation, d: &mut Diagnostics) {
    let Some(max) = relation
        .max
        .as_ref()
        .filter(|_| relation.side == Side::HasMany)
    else {
        return;
    };
    match options::as_int(max) {
        Some(Ok(n)) if (1..=MAX_INCLUDED).contains(&n) => {}
        Some(_) => d
            .error(max, format!("max is not within 1..={MAX_INCLUDED}"))
            .help("`max = 20`; clients read further pages with `nextCursor`"),
        None => d.error(max, "max needs a whole number").help("`max = 20`"),
    }
}
