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
        alone(field, d);
        form(field, d);
        plays_no_part(model, index, d);
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
                        format!("`{text}` is computed itself: a function sees what is not"),
                    )
                    .help(format!(
                        "name what `{text}` follows from, and call its function"
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

/// A computed field has no other source of its value.
fn alone(field: &Field, d: &mut Diagnostics) {
    const HELP: &str = "its function says what it holds; leave the option out";
    let name = &field.name;
    for flag in [
        Flag::Primary,
        Flag::Immutable,
        Flag::ReadOnly,
        Flag::ClientSet,
    ] {
        if let Some(at) = field.options.flag(flag) {
            d.error(at, format!("`{at}` on computed field `{name}`"))
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
        d.error(at, format!("`transform` on computed field `{name}`"))
            .help("migrations compute its values again; leave the option out");
    }
    if let Some(at) = &field.options.on_update {
        d.error(at, format!("`on_update` on computed field `{name}`"))
            .help(HELP);
    }
    for (at, _) in field.options.rules.keys() {
        d.error(at, format!("`{at}` on computed field `{name}`"))
            .help(HELP);
    }
}

/// A computed field can be compared, or is a list of texts.
fn form(field: &Field, d: &mut Diagnostics) {
    if matches!(field.kind, Kind::Json | Kind::Items) {
        d.error(
            &field.ty,
            format!(
                "computed field `{}` is a scalar or a list of texts, not {}",
                field.name,
                type_text(&field.ty)
            ),
        )
        .help("compute what is looked for or sorted by, and keep the rest where it is");
    }
}

/// A field that decides who sees a record, or that names another record, cannot be computed: its
/// value must be known before the record.
fn plays_no_part(model: &EntityModel, index: usize, d: &mut Diagnostics) {
    let field = &model.fields[index];
    let part = if model.visibility.pins(index) {
        "whose record it is"
    } else if model.visibility.ends(index) {
        "whether a record is there"
    } else if model.relations.iter().any(|r| r.own_key() == Some(index))
        || model.gates.restricts_to_visible(index)
    {
        "another record"
    } else {
        return;
    };
    d.error(
        &field.ident,
        format!("computed field `{}` cannot say {part}", field.name),
    )
    .help("let a field of its own say it");
}
