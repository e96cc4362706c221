//! The rules of a catalogue that need only the declarations of the catalogue and its entities.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, Path};

use super::parse::{Catalogue, Event};
use crate::channel::Word;
use crate::diagnostics::{Diagnostics, nearest};
use crate::entity::EntityModel;
use crate::expr::{Filter, Resolved, Scope, check_when_sources};
use crate::gather::Entities;

/// A condition, and the checks of it that only rustc can make.
pub(super) type Condition = (Resolved, Vec<TokenStream>);

/// Checks a catalogue.
pub(super) fn check(catalogue: &Catalogue, d: &mut Diagnostics) {
    for (i, source) in catalogue.sources.iter().enumerate() {
        let name = text(&source.entity);
        let mut before = catalogue.sources[..i].iter();
        if before.any(|other| text(&other.entity) == name) {
            d.error(&source.entity, format!("`{name}` is listed twice"))
                .help("write one list with all events of the entity");
        }
        if source.events.is_empty() {
            d.error(&source.entity, format!("`{name}` is listed without events"))
                .help("`[created, updated, deleted]`, or consts of operations");
        }
        for (i, event) in source.events.iter().enumerate() {
            let at = &event.path.at;
            if source.events[..i].iter().any(|other| other.path.at == *at) {
                d.error(at, format!("`{at}` is listed twice"))
                    .help("list the event once, and join its conditions: `when(a || b)`");
            }
            check_event(event, d);
        }
    }
}

/// Returns the one of `created`, `updated` and `deleted` that a misspelt word probably means. rustc
/// reports unknown operations.
pub(super) fn intended_event(event: &Event) -> Option<&'static str> {
    let Word::Operation(name) = &event.path.word else {
        return None;
    };
    if name.chars().any(char::is_uppercase) {
        return None;
    }
    nearest(name, ["created", "updated", "deleted"])
}

fn check_event(event: &Event, d: &mut Diagnostics) {
    if let Some(near) = intended_event(event) {
        let path_text = event.path.path_text();
        d.error(&event.path.at, format!("unknown event `{path_text}`"))
            .help(format!("`{near}`"));
    }
}

/// Resolves the conditions: one for each event, in their order. `first` is the entity whose
/// declaration was collected first.
pub(super) fn conditions(
    catalogue: &Catalogue,
    first: &Path,
    entities: &Entities,
    d: &mut Diagnostics,
) -> Vec<Option<Condition>> {
    let condition = |event: &Event| {
        let entity = &event.path.entity;
        let model = model_of(entity, first, entities)?;
        when(entity, model, event.when.as_ref()?, d)
    };
    catalogue.events().map(condition).collect()
}

fn model_of<'a>(path: &Path, first: &Path, entities: &'a Entities) -> Option<&'a EntityModel> {
    let name = text(path);
    if text(first) == name {
        return Some(&entities.own);
    }
    let mut siblings = entities.siblings.iter();
    let found = siblings.find(|sibling| text(&sibling.path) == name)?;
    Some(&found.model)
}

fn when(entity: &Path, model: &EntityModel, expr: &Expr, d: &mut Diagnostics) -> Option<Condition> {
    let filter = Filter::parse(expr, d)?;
    let before = d.len();
    check_when_sources(&filter, d);
    if d.len() > before {
        return None;
    }
    let mut scope = Scope::new(model, entity, &[], d);
    scope.for_callers = false;
    let resolved = scope.filter(&filter, &[])?;
    let asserts = std::mem::take(&mut scope.asserts);
    Some((resolved, asserts))
}

/// Returns the text of a path, without spaces.
fn text(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}
