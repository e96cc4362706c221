//! The rules of an endpoint that need only the declarations of the endpoint and its entities.

use quote::ToTokens;
use syn::Path;

use super::parse::{Endpoint, Event};
use crate::channel::{Word, names, read_disabled};
use crate::diagnostics::{Diagnostics, nearest};
use crate::entity::{EntityModel, Route, why_not_public};
use crate::gather::Entities;
use crate::policy::Auth;

/// The position of the list route in `EntityModel::routes`.
const LIST: usize = 1;
const PATH_PREFIX: &str = "/__sse/";

/// Checks an endpoint.
pub(super) fn check(endpoint: &Endpoint, entities: &Entities, d: &mut Diagnostics) {
    check_path(endpoint, d);
    let models: Vec<(&Path, &EntityModel)> = endpoint
        .sources
        .iter()
        .map(|source| (&source.entity, model_of(entities, &source.entity)))
        .collect();
    for (i, (entity, model)) in models.iter().enumerate() {
        let path_text = path_text(entity);
        if models[..i]
            .iter()
            .any(|(_, other)| other.storage_name == model.storage_name)
        {
            d.error(entity, format!("`{path_text}` is listed twice"))
                .help("write one list with all events of the entity");
        }
        if let Some(help) = read_disabled(model, LIST) {
            d.error(
                entity,
                format!(
                    "route `list` of {path_text} is disabled, so no caller may read its records"
                ),
            )
            .help(help);
        }
        check_public(endpoint, entity, model, d);
    }
    check_partitions(&models, d);
    check_events(endpoint, entities, d);
}

/// Returns the model of an entity that the endpoint names.
pub(super) fn model_of<'a>(entities: &'a Entities, path: &Path) -> &'a EntityModel {
    let text = path.to_token_stream().to_string();
    let sibling = entities
        .siblings
        .iter()
        .find(|sibling| sibling.path.to_token_stream().to_string() == text);
    sibling.map_or(&entities.own, |sibling| &sibling.model)
}

fn path_text(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}

fn check_path(endpoint: &Endpoint, d: &mut Diagnostics) {
    let path = endpoint.path.value();
    let Some(rest) = path.strip_prefix(PATH_PREFIX) else {
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = if name.is_empty() {
            "notifications"
        } else {
            name
        };
        d.error(
            &endpoint.path,
            format!("SSE path must start with `{PATH_PREFIX}`"),
        )
        .help(format!("`\"{PATH_PREFIX}{name}\"`"));
        return;
    };
    if rest.contains([':', '{', '*']) {
        d.error(&endpoint.path, "an SSE path must have static segments only")
            .help("use scopes, not path parameters, to select the records of a caller");
    } else if !names::is_static_path(rest) {
        d.error(
            &endpoint.path,
            format!("SSE path `{path}` has a segment that is empty, `.`, `..` or needs encoding in a URL"),
        )
        .help(format!(
            "letters, digits, `-`, `.`, `_` and `~`: `\"{PATH_PREFIX}notifications\"`"
        ));
    }
}

/// Checks a public endpoint: anonymous callers must be allowed to list all its entities.
fn check_public(endpoint: &Endpoint, entity: &Path, model: &EntityModel, d: &mut Diagnostics) {
    let Some(Auth::None(word)) = &endpoint.policy.auth else {
        return;
    };
    let (name, entity) = (&endpoint.ident, path_text(entity));
    let list = Route {
        name: "list",
        reads: true,
        unscoped: false,
    };
    if let Some((message, _)) = why_not_public(model, &list) {
        let reason = message.split_once(" but ").map_or("", |(_, reason)| reason);
        d.error(
            word,
            format!("SSE endpoint `{name}` is public but {reason}"),
        )
        .help("leave `auth = none` out");
        return;
    }
    let read = model.routes[LIST]
        .auth
        .as_ref()
        .or(model.defaults.auth.as_ref());
    if !matches!(read, Some(Auth::None(_))) && !model.has_unread_routes {
        d.error(
            word,
            format!("SSE endpoint `{name}` is public but `list` of {entity} needs a user"),
        )
        .help(format!(
            "leave `auth` out, or write `routes(list(auth = none))` on {entity}"
        ));
    }
}

/// Checks that all entities have the same tenant and `ctx(..)` scopes: an endpoint has one stream
/// for each combination of their values.
fn check_partitions(models: &[(&Path, &EntityModel)], d: &mut Diagnostics) {
    let Some(((first, model), others)) = models.split_first() else {
        return;
    };
    let partition_text = |partition: &[String]| {
        if partition.is_empty() {
            "nothing".to_owned()
        } else {
            partition.join(" and ")
        }
    };
    let own = model.visibility.partition();
    for (entity, model) in others {
        let other = model.visibility.partition();
        if other != own && !model.visibility.has_unread_options {
            d.error(
                entity,
                format!(
                    "events of `{}` are partitioned by {}, events of `{}` by {}: all entities of an SSE \
                     endpoint must have the same partitions",
                    path_text(first),
                    partition_text(&own),
                    path_text(entity),
                    partition_text(&other)
                ),
            )
            .help("declare a separate endpoint");
        }
    }
}

fn check_events(endpoint: &Endpoint, entities: &Entities, d: &mut Diagnostics) {
    // The names so far, each with the position of its source.
    let mut seen: Vec<(String, usize)> = Vec::new();
    for (position, source) in endpoint.sources.iter().enumerate() {
        let model = model_of(entities, &source.entity);
        for (i, event) in source.events.iter().enumerate() {
            let at = &event.path.at;
            if source.events[..i].iter().any(|other| other.path.at == *at) {
                d.error(at, format!("`{at}` is listed twice"))
                    .help("add further names with `+`: `created as \"a\" + \"b\"`");
            }
            check_event(event, d);
            let own = names::of_event(model, &event.path.word)
                .filter(|_| event.names.is_empty())
                .map(|name| (name, at.to_token_stream()));
            let written = event
                .names
                .iter()
                .map(|name| (name.value(), name.to_token_stream()));
            for (name, at) in own.into_iter().chain(written) {
                if seen
                    .iter()
                    .any(|(other, of)| *other == name && *of != position)
                {
                    d.error(
                        &at,
                        format!("event name `{name}` is already used by another entity"),
                    )
                    .help("another name: `created as \"..\"`");
                }
                seen.push((name, position));
            }
        }
    }
}

/// Suggests the nearest of `created`, `updated` and `deleted`. rustc reports unknown operations.
fn check_event(event: &Event, d: &mut Diagnostics) {
    let Word::Operation(name) = &event.path.word else {
        return;
    };
    if name.chars().any(char::is_uppercase) {
        return;
    }
    if let Some(near) = nearest(name, ["created", "updated", "deleted"]) {
        d.error(
            &event.path.at,
            format!("unknown event `{}`", event.path.path_text()),
        )
        .help(format!("`{near}`"));
    }
}
