//! The rules on gates that need only the declaration.

use super::{Gate, MAX_LINKS, condition};
use crate::diagnostics::Diagnostics;
use crate::entity::check::{kind_text, type_text};
use crate::entity::grants::{TRANSACTION, without};
use crate::entity::{EntityModel, Kind};
use crate::options;

/// Checks the gates and conditions of an entity.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    let gates = &model.gates;
    for (i, gate) in gates.all.iter().enumerate() {
        check_key(model, gate, d);
        if gate.is_tree(model) {
            check_tree(model, gate, d);
            if gates.all[..i]
                .iter()
                .any(|other| other.field != gate.field && other.is_tree(model))
            {
                d.error(
                    &gate.key,
                    format!("entity `{}` already has a gate to itself", model.name),
                )
                .help("keep one of the gates");
            }
        } else {
            check_gate_to_other_entity(model, gate, d);
        }
        if gates.all[..i].iter().any(|other| other.field == gate.field) {
            d.error(
                &gate.key,
                format!("field `{}` is in two gates", model.fields[gate.field].name),
            )
            .help("keep one of them");
        }
        for store in model.lacking(TRANSACTION) {
            d.error(
                &gate.word,
                format!(
                    "a gate needs a store that reads two records in one statement, which `{}` \
                     cannot",
                    store.name
                ),
            )
            .help(without(store, TRANSACTION, "can"));
        }
    }
    if let Some(expr) = &gates.visible {
        condition(model, expr, "visible", d);
    }
    for (i, action) in gates.actions.iter().enumerate() {
        condition(model, &action.filter, "action", d);
        if gates.actions[..i]
            .iter()
            .any(|other| other.name.value() == action.name.value())
        {
            d.error(
                &action.name,
                format!("action `{}` is declared twice", action.name.value()),
            )
            .help("join its conditions by `||`");
        }
    }
}

fn check_key(model: &EntityModel, gate: &Gate, d: &mut Diagnostics) {
    let field = &model.fields[gate.field];
    if !matches!(
        field.kind,
        Kind::String | Kind::Uuid | Kind::Integer | Kind::Other
    ) {
        d.error(
            &gate.key,
            format!(
                "key `{}` is {}, ids are string or integer",
                field.name,
                kind_text(field)
            ),
        )
        .help("use a field with the type of the other entity's primary key");
    } else if field.generated {
        d.error(
            &gate.key,
            format!(
                "`{}` is the version counter and cannot be a key",
                field.name
            ),
        )
        .help("use another field as the key");
    }
}

/// Checks a gate to another entity.
fn check_gate_to_other_entity(model: &EntityModel, gate: &Gate, d: &mut Diagnostics) {
    let (field, target_name) = (&model.fields[gate.field], gate.target_name());
    if field.optional {
        d.error(
            &gate.key,
            format!(
                "gate to `{target_name}`: the key `{}` must be required",
                field.name
            ),
        )
        .help(format!("`pub {}: {}`", field.name, type_text(&field.inner)));
    }
    if let Some(depth) = &gate.depth {
        d.error(
            depth,
            format!(
                "`depth` is for gates of an entity to itself; `{target_name}` is another entity"
            ),
        )
        .help("leave `depth` out");
    }
}

/// Checks a gate to the entity itself.
fn check_tree(model: &EntityModel, gate: &Gate, d: &mut Diagnostics) {
    let (field, entity) = (&model.fields[gate.field], &model.name);
    match &gate.depth {
        None => {
            d.error(
                &gate.target,
                format!("recursive gate of `{entity}` needs `depth`"),
            )
            .help(format!(
                "`depth = 3`: the maximum number of records above a record, from 1 to {MAX_LINKS}"
            ));
        }
        Some(depth) => match options::as_int(depth) {
            Some(Ok(n)) if (1..=MAX_LINKS).contains(&n) => {}
            Some(_) => d
                .error(depth, format!("depth is not within 1..={MAX_LINKS}"))
                .help("`depth = 3`"),
            None => d
                .error(depth, "depth needs a whole number")
                .help("`depth = 3`"),
        },
    }
    if !field.optional {
        d.error(
            &gate.key,
            format!(
                "the key `{}` of a gate to the same entity must be optional: roots have no parent",
                field.name
            ),
        )
        .help(format!(
            "`pub {}: Option<{}>`",
            field.name,
            type_text(&field.inner)
        ));
    }
    if !field.immutable() {
        d.error(
            &gate.key,
            format!(
                "records of `{entity}` could be moved below themselves: `{}` is not immutable",
                field.name
            ),
        )
        .help("`#[field(immutable)]`");
    }
}
