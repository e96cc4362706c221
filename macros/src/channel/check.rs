//! The rules of a channel that need only the declarations of the channel and its entities.

use quote::ToTokens;

use super::item::{Payload, Variant};
use super::marks::Word;
use super::model::{Entity, MarkModel, Model, On, VariantModel};
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::policy::Auth;

/// The positions of the read routes in `EntityModel::routes`.
const LIST: usize = 1;
const GET: usize = 2;

/// Checks a channel.
pub(super) fn check(model: &Model<'_>, d: &mut Diagnostics) {
    check_policy(model, d);
    for variant in &model.variants {
        check_payload(variant, d);
        if let MarkModel::On(all) = &variant.mark {
            for on in all {
                check_readable(on, model, d);
                check_event_paths(on, d);
            }
        }
    }
    check_unique_names(model, d);
}

/// The policy of a channel cannot admit callers whom the read route refuses: only callers who may
/// read the records may join.
fn check_policy(model: &Model<'_>, d: &mut Diagnostics) {
    let (route, name) = read_route(model.args.collection.is_some());
    let entity = model.of.model;
    if let Some(help) = read_disabled(entity, route) {
        d.error(
            model.of.path,
            format!(
                "route `{name}` of {} is disabled, so no caller could join the channel",
                model.of.path_text()
            ),
        )
        .help(help);
        return;
    }
    let Some(Auth::None(word)) = &model.args.policy.auth else {
        return;
    };
    let read = entity.routes[route]
        .auth
        .as_ref()
        .or(entity.defaults.auth.as_ref());
    if matches!(read, Some(Auth::None(_))) || entity.has_unread_routes {
        return;
    }
    let channel = model
        .args
        .name
        .as_ref()
        .map_or_else(|| model.declared.ident.to_string(), syn::LitStr::value);
    d.error(
        word,
        format!(
            "channel `{channel}` is public but `{name}` of {} needs a user",
            model.of.path_text()
        ),
    )
    .help(format!(
        "leave `auth` out, or write `routes({name}(auth = none))` on {}",
        model.of.path_text()
    ));
}

/// Returns the route whose policy applies to joins: its position and its name.
fn read_route(collection: bool) -> (usize, &'static str) {
    if collection {
        (LIST, "list")
    } else {
        (GET, "get")
    }
}

/// Returns the help text if a read route is not mounted.
pub(crate) fn read_disabled(entity: &EntityModel, route: usize) -> Option<&'static str> {
    let is_disabled = entity.routes[route].disabled || entity.defaults.disabled;
    (is_disabled && !entity.has_unread_routes)
        .then_some("enable the route: its policy decides who may read the records")
}

/// An event contains a record, so its receivers must be allowed to `get` the record.
fn check_readable(on: &On<'_>, model: &Model<'_>, d: &mut Diagnostics) {
    if on.entity.is(model.of) {
        return;
    }
    if let Some(help) = read_disabled(on.entity.model, GET) {
        d.error(
            on.entity.path,
            format!(
                "route `get` of {} is disabled, so no caller may read its records",
                on.entity.path_text()
            ),
        )
        .help(help);
    }
}

/// Checks the last segments of event paths. rustc reports unknown operations.
fn check_event_paths(on: &On<'_>, d: &mut Diagnostics) {
    for event in on.events {
        let Word::Operation(name) = &event.word else {
            continue;
        };
        let known = ["created", "updated", "deleted"];
        if name.chars().any(char::is_uppercase) {
            continue;
        }
        if let Some(near) = crate::diagnostics::nearest(name, known) {
            d.error(&event.at, format!("unknown event `{}`", event.path_text()))
                .help(format!("`{near}`"));
        }
    }
    for (i, event) in on.events.iter().enumerate() {
        if on.events[..i].iter().any(|other| other.at == event.at) {
            d.error(&event.at, format!("`{}` is named twice", event.path_text()))
                .help("keep one of them");
        }
    }
}

/// Checks that the payload of a variant fits its mark.
fn check_payload(variant: &VariantModel<'_>, d: &mut Diagnostics) {
    let Variant { ident, payload, .. } = variant.at;
    match (&variant.mark, payload) {
        (MarkModel::On(on), Payload::None | Payload::Members(_)) => {
            let entity = on
                .first()
                .map_or_else(|| "Thread".to_owned(), |on| on.entity.path_text());
            d.error(
                ident,
                format!("`{ident}` forwards events of {entity}, so its payload must be the record"),
            )
            .help(format!(
                "`{ident}({entity})`, or a struct with `#[projection({entity})]` instead of `{entity}`"
            ));
        }
        (MarkModel::Operation(run), Payload::Type(ty)) => {
            d.error(
                ty,
                format!(
                    "the payload of `{ident}` must be the parameters of `{}`, as named members",
                    run.operation_name()
                ),
            )
            .help(format!(
                "`{ident} {{ reason: String }}`, or `{ident}` without parameters"
            ));
        }
        (MarkModel::Handler(path), Payload::Members(_)) => {
            let function = super::marks::path_text(path);
            d.error(
                ident,
                format!("function `{function}` takes the payload as one value"),
            )
            .help(format!(
                "`{ident}(Payload)` of a struct with `#[derive(Embedded)]`"
            ));
        }
        _ => {}
    }
}

/// Checks that variants have different event names. Event names of operations are compared by
/// const evaluation.
fn check_unique_names(model: &Model<'_>, d: &mut Diagnostics) {
    let mut seen: Vec<(&str, &VariantModel<'_>)> = Vec::new();
    for variant in &model.variants {
        for (name, at) in &variant.names {
            let first = seen.iter().find(|(other, _)| other == name);
            match first {
                Some((_, first)) if !std::ptr::eq(*first, variant) => {
                    d.error(
                        at,
                        format!(
                            "event name `{name}` is already used by variant `{}`",
                            first.at.ident
                        ),
                    )
                    .help("set another name: `event = \"..\"`");
                }
                _ => seen.push((name, variant)),
            }
        }
    }
}

impl Entity<'_> {
    /// The tokens of the path.
    pub(super) fn tokens(self) -> proc_macro2::TokenStream {
        self.path.to_token_stream()
    }
}
