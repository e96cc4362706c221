//! The rules on computed fields.

use syn::ext::IdentExt;

use super::check::type_text;
use super::field::{Default, Field, Flag, Kind};
use super::model::EntityModel;
use crate::diagnostics::{Diagnostics, nearest};

/// Checks every computed field of an entity.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    for (index, field) in model.fields.iter().enumerate() {
        let Some(computed) = &field.options.computed else {
            continue;
        };
        check_no_other_source(field, d);
        check_type(field, d);
        check_visibility_and_keys(model, index, d);
        for (i, name) in computed.from.iter().enumerate() {
            let text = name.unraw().to_string();
            match model.index_of(name).map(|at| &model.fields[at]) {
                None => {
                    let problem = d.error(name, format!("unknown field `{text}` in computed"));
                    if let Some(near) = nearest(&text, model.field_names()) {
                        problem.help(format!("`{near}`"));
                    }
                }
                Some(other) if other.options.computed.is_some() => {
                    d.error(
                        name,
                        format!(
                            "`{text}` is computed itself: `from` must not contain computed fields"
                        ),
                    )
                    .help(format!(
                        "list the fields that `{text}` is computed from, and call the function of `{text}` in this function"
                    ));
                }
                Some(_)
                    if computed.from[..i]
                        .iter()
                        .any(|earlier| earlier.unraw() == text) =>
                {
                    d.error(name, format!("field `{text}` repeated in computed"))
                        .help("name each field once");
                }
                Some(_) => {}
            }
        }
    }
}

/// Checks that a computed field has no other source of its value.
fn check_no_other_source(field: &Field, d: &mut Diagnostics) {
    const HELP: &str = "the function determines the value; remove the option";
    let name = &field.name;
    for flag in [
        Flag::Primary,
        Flag::Immutable,
        Flag::ReadOnly,
        Flag::ClientSet,
    ] {
        if let Some(at) = field.options.flag(flag) {
            d.error(
                at,
                format!("`{at}` is not allowed on computed field `{name}`"),
            )
            .help(HELP);
        }
    }
    if let (
        Default::Uuid(_)
        | Default::Cuid(_)
        | Default::Now(_)
        | Default::Ctx(..)
        | Default::Value(_),
        Some(computed),
    ) = (&field.options.default, &field.options.computed)
    {
        d.error(
            &computed.key,
            format!("computed field `{name}` has a default"),
        )
        .help("leave one of them out");
    }
    if let Some((at, _)) = &field.options.transform {
        d.error(
            at,
            format!("`transform` is not allowed on computed field `{name}`"),
        )
        .help("leave the option out: migrations compute the values of the field again");
    }
    if let Some(at) = &field.options.on_update {
        d.error(
            at,
            format!("`on_update` is not allowed on computed field `{name}`"),
        )
        .help(HELP);
    }
    for (at, _) in field.options.rules.keys() {
        d.error(
            at,
            format!("`{at}` is not allowed on computed field `{name}`"),
        )
        .help(HELP);
    }
}

/// Checks that a computed field is neither a JSON value nor a list of items.
fn check_type(field: &Field, d: &mut Diagnostics) {
    if matches!(field.kind, Kind::Json | Kind::Items) {
        d.error(
            &field.ty,
            format!(
                "computed field `{}` must be a scalar or a list of texts, not {}",
                field.name,
                type_text(&field.ty)
            ),
        )
        .help("compute a scalar value for filters and sorts, and keep the other data in its field");
    }
}

/// Refuses a computed field that decides who sees a record or that is the key of another record.
/// The value of such a field must be known before the record is read.
fn check_visibility_and_keys(model: &EntityModel, index: usize, d: &mut Diagnostics) {
    let field = &model.fields[index];
    let part = if model.visibility.restricts_by(index) {
        "the tenant or a scope"
    } else if model.visibility.deletes_or_expires(index) {
        "the field of `soft_delete` or `ttl`"
    } else if model.relations.iter().any(|r| r.own_key() == Some(index))
        || model.gates.restricts_to_visible(index)
    {
        "the key of another record"
    } else {
        return;
    };
    d.error(
        &field.ident,
        format!("computed field `{}` cannot be {part}", field.name),
    )
    .help("use a field that is not computed");
}
