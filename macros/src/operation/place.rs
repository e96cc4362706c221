//! The routes of an operation, and the position of each parameter in a request.

use proc_macro2::TokenStream;
use quote::ToTokens;

use super::kinds::{Part, Plan, Shape};
use super::path::{self, Method, Route, RouteArgs, Segment};
use crate::diagnostics::{Diagnostics, list};
use crate::entity::Flag;
use crate::expr::{Place, Scope, Via};

/// Returns the routes, and sets the position of each parameter in the request.
pub(super) fn routes(
    plan: &Plan,
    args: &RouteArgs,
    kebab: &str,
    scope: &mut Scope<'_>,
) -> Vec<Route> {
    let method = method(plan, args, scope);
    let operation_segment = || Segment::Lit(kebab.to_owned());
    if let Shape::Adapter = plan.shape {
        return Vec::new();
    }
    let in_path: Vec<Vec<Segment>> = match (&args.route_override.path, &plan.shape) {
        (Some((segments, text)), _) => {
            vec![resolved_path(segments, &text.to_token_stream(), scope)]
        }
        (None, Shape::ById) => match scope.params.by_name("id").map(|i| scope.params.get(i)) {
            Some(id) if id.via == Via::Param && !id.list => {
                vec![vec![Segment::Param("id".to_owned()), operation_segment()]]
            }
            // The parameter of `match(slug = param(slug))` is in the body, so the path has no id.
            _ => vec![vec![operation_segment()]],
        },
        // In methods other than GET, no parameter is a segment of the default path.
        (None, Shape::Collection { segments }) if method == Method::Get && !segments.is_empty() => {
            let wires = segments
                .iter()
                .map(|i| Segment::Param(scope.params.get(*i).wire.clone()));
            vec![
                vec![operation_segment()],
                std::iter::once(operation_segment()).chain(wires).collect(),
            ]
        }
        (None, Shape::Collection { .. } | Shape::Adapter) => vec![vec![operation_segment()]],
    };
    let model = scope.model;
    let mut misplaced = Vec::new();
    for param in scope.params.iter_mut() {
        let segment = Segment::Param(param.wire.clone());
        let is_segment = in_path.iter().any(|path| path.contains(&segment));
        let is_primary = param.owner.is_none() && model.fields[param.field].has(Flag::Primary);
        param.place = match param.via {
            Via::Input if method == Method::Get => {
                misplaced.push(param.ident.clone());
                Place::Body
            }
            Via::Input => Place::Body,
            Via::Param if is_segment && is_primary && matches!(plan.shape, Shape::ById) => {
                Place::Id
            }
            Via::Param if is_segment => Place::Segment,
            Via::Param if matches!(method, Method::Get | Method::Delete) => Place::Query,
            Via::Param => Place::Body,
        };
    }
    for ident in misplaced {
        scope
            .d
            .error(
                &ident,
                format!("`input({ident})` reads a body, and a GET route has no body"),
            )
            .help(format!("`param({ident})`"));
    }
    for param in scope.params.iter().filter(|p| p.default.is_some()) {
        // A parameter with a default is allowed if at least one of two path forms does not contain
        // it.
        if in_path
            .iter()
            .all(|path| path.contains(&Segment::Param(param.wire.clone())))
        {
            let text = format!(
                "`{}` is a segment of the path, so every call contains it: it cannot have a default",
                param.ident
            );
            scope.d.error(&param.ident, text);
        }
    }
    let parents: Vec<String> = model.visibility.path_parameters().collect();
    for ident in scope
        .params
        .iter()
        .filter(|p| parents.contains(&p.wire))
        .map(|p| p.ident.clone())
        .collect::<Vec<_>>()
    {
        scope
            .d
            .error(
                &ident,
                format!("`{ident}` is a parameter of the entity's parent_path"),
            )
            .help("another name");
    }
    if plan.pages() {
        let taken: Vec<_> = scope
            .params
            .iter()
            .filter(|p| p.wire == "limit" || p.wire == "cursor")
            .map(|p| p.ident.clone())
            .collect();
        for ident in taken {
            scope
                .d
                .error(
                    &ident,
                    format!("parameter name `{ident}` is reserved for paging and sorting"),
                )
                .help("another name");
        }
    }
    in_path.into_iter().map(|path| (method, path)).collect()
}

/// Returns the routes of a collection's methods, in their order.
pub(super) fn parts(plan: &Plan, name: &str, kebab: &str, d: &mut Diagnostics) -> Vec<Route> {
    let one = |part: &Part, d: &mut Diagnostics| {
        let parameters: &[(&str, &str)] = if part.has_item_key {
            &[("id", "id"), ("item_id", "itemId")]
        } else {
            &[("id", "id")]
        };
        let mut own = vec![
            Segment::Param("id".to_owned()),
            Segment::Lit(format!("{kebab}-{}", part.name)),
        ];
        own.extend(
            part.has_item_key
                .then(|| Segment::Param("itemId".to_owned())),
        );
        let (of, reads) = (format!("`{name}_{}`", part.name), part.reads());
        let effect = format!(
            "{of}, which {}",
            if reads {
                "only reads"
            } else {
                "changes a record"
            }
        );
        (
            part.route_override
                .method(part.method, allowed_methods(reads), &effect, d),
            part.route_override.path(own, parameters, &of, d),
        )
    };
    let routes: Vec<_> = plan.parts.iter().map(|part| one(part, d)).collect();
    path::check_distinct(
        plan.parts
            .iter()
            .zip(&routes)
            .map(|(part, route)| (format!("{name}_{}", part.name), &part.route_override, route)),
        d,
    );
    routes
}

fn method(plan: &Plan, args: &RouteArgs, scope: &mut Scope<'_>) -> Method {
    let of = format!("an operation that {}", plan.effect());
    args.route_override
        .method(plan.method, allowed_methods(plan.reads()), &of, scope.d)
}

/// Returns the allowed methods of a route that only reads, or of one that changes records.
fn allowed_methods(reads: bool) -> &'static [Method] {
    if reads {
        &[Method::Get, Method::Post]
    } else {
        &[Method::Post, Method::Put, Method::Patch, Method::Delete]
    }
}

/// Returns a declared path with the wire names of its parameters.
fn resolved_path(segments: &[Segment], at: &TokenStream, scope: &mut Scope<'_>) -> Vec<Segment> {
    let mut resolved_path = Vec::new();
    for segment in segments {
        resolved_path.push(match segment {
            Segment::Lit(_) => segment.clone(),
            Segment::Param(name) => {
                let param = scope.params.by_name(name).map(|i| scope.params.get(i));
                if param.is_none_or(|p| p.via != Via::Param || p.list) {
                    let known = list(
                        scope
                            .params
                            .iter()
                            .filter(|p| p.via == Via::Param && !p.list)
                            .map(|p| &p.name),
                    );
                    let problem = scope.d.error(
                        at,
                        format!("`{{{name}}}` of the path is not a parameter of the operation"),
                    );
                    if !known.is_empty() {
                        problem.help(format!("known: {known}"));
                    }
                    continue;
                }
                Segment::Param(param.map_or_else(|| name.clone(), |p| p.wire.clone()))
            }
        });
    }
    resolved_path
}
