//! The method and path of an entity's five routes: `method` and `path` in `routes(get(..))`.

use proc_macro2::TokenStream;
use quote::quote;

use super::ROUTES;
use super::model::EntityModel;
use crate::diagnostics::Diagnostics;
use crate::operation::path::{self, Method, Route, RouteOverride, Segment};

/// Properties of a route: its default method, whether its path contains an id, its allowed methods,
/// and the reason for this restriction.
type RouteDefaults = (Method, bool, &'static [Method], &'static str);

const READS_QUERY: &str = "which reads its parameters from the query";
const TAKES_RECORD: &str = "which takes a record";

/// The five routes, in the order of the descriptor.
const ROUTE_DEFAULTS: [RouteDefaults; 5] = [
    (
        Method::Post,
        false,
        &[Method::Post, Method::Put, Method::Patch],
        TAKES_RECORD,
    ),
    (Method::Get, false, &[Method::Get], READS_QUERY),
    (Method::Get, true, &[Method::Get], READS_QUERY),
    (
        Method::Patch,
        true,
        &[Method::Patch, Method::Put, Method::Post],
        TAKES_RECORD,
    ),
    (
        Method::Delete,
        true,
        &[Method::Delete, Method::Post, Method::Put, Method::Patch],
        "which removes a record",
    ),
];

/// Returns the method and path of each route.
fn routes(model: &EntityModel, d: &mut Diagnostics) -> Vec<Route> {
    let resolve = |(at, (own, by_id, fitting, why)): (usize, RouteDefaults)| {
        let (route_override, of) = (&model.route_override[at], format!("route `{}`", ROUTES[at]));
        let id = by_id
            .then(|| Segment::Param("id".to_owned()))
            .into_iter()
            .collect();
        let parameters: &[(&str, &str)] = if by_id { &[("id", "id")] } else { &[] };
        (
            route_override.method(own, fitting, &format!("{of}, {why}"), d),
            route_override.path(id, parameters, &of, d),
        )
    };
    ROUTE_DEFAULTS
        .into_iter()
        .enumerate()
        .map(resolve)
        .collect()
}

pub(super) fn check(model: &EntityModel, d: &mut Diagnostics) {
    model
        .route_override
        .iter()
        .for_each(|route_override| route_override.refuse_entity_path(&model.path, d));
    let routes = routes(model, d);
    let mounted = (0..ROUTES.len()).filter(|at| !model.routes[*at].disabled);
    path::check_distinct(
        mounted.map(|at| {
            (
                ROUTES[at].to_owned(),
                &model.route_override[at],
                &routes[at],
            )
        }),
        d,
    );
}

/// Returns `None` if no route has another method or path.
pub(crate) fn descriptor(model: &EntityModel) -> Option<TokenStream> {
    if model.route_override.iter().all(RouteOverride::is_empty) {
        return None;
    }
    let mut ignored = Diagnostics::new();
    let routes = routes(model, &mut ignored);
    ignored.ignore();
    let routes = routes
        .iter()
        .map(|(method, segments)| quote!(#method(&[#(#segments),*])));
    Some(quote!(mounts: [#(#routes),*],))
}
