//! The method and path of an entity's five routes: `method` and `path` in `routes(get(..))`.

use proc_macro2::TokenStream;
use quote::quote;

use super::ROUTES;
use super::model::EntityModel;
use crate::diagnostics::Diagnostics;
use crate::operation::path::{self, Method, Moved, Route, Segment};

/// The facts of a route: its own method, whether its path names a record, its allowed methods, and
/// the reason for this restriction.
type Own = (Method, bool, &'static [Method], &'static str);

const READS: &str = "whose parameters are those of a query";
const TAKES: &str = "which takes a record";

/// In the order of the descriptor.
const OWN: [Own; 5] = [
    (
        Method::Post,
        false,
        &[Method::Post, Method::Put, Method::Patch],
        TAKES,
    ),
    (Method::Get, false, &[Method::Get], READS),
    (Method::Get, true, &[Method::Get], READS),
    (
        Method::Patch,
        true,
        &[Method::Patch, Method::Put, Method::Post],
        TAKES,
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
    let one = |(at, (own, by_id, fitting, why)): (usize, Own)| {
        let (moved, of) = (&model.moved[at], format!("route `{}`", ROUTES[at]));
        let id = by_id
            .then(|| Segment::Param("id".to_owned()))
            .into_iter()
            .collect();
        let parameters: &[(&str, &str)] = if by_id { &[("id", "id")] } else { &[] };
        (
            moved.method(own, fitting, &format!("{of}, {why}"), d),
            moved.path(id, parameters, &of, d),
        )
    };
    OWN.into_iter().enumerate().map(one).collect()
}

pub(super) fn check(model: &EntityModel, d: &mut Diagnostics) {
    model
        .moved
        .iter()
        .for_each(|moved| moved.not_below_itself(&model.path, d));
    let routes = routes(model, d);
    let mounted = (0..ROUTES.len()).filter(|at| !model.routes[*at].disabled);
    path::apart(
        mounted.map(|at| (ROUTES[at].to_owned(), &model.moved[at], &routes[at])),
        d,
    );
}

/// Returns `None` if no route has another method or path.
pub(crate) fn descriptor(model: &EntityModel) -> Option<TokenStream> {
    if model.moved.iter().all(Moved::is_nothing) {
        return None;
    }
    let mut known = Diagnostics::new();
    let routes = routes(model, &mut known);
    known.ignore();
    let routes = routes
        .iter()
        .map(|(method, segments)| quote!(#method(&[#(#segments),*])));
    Some(quote!(mounts: [#(#routes),*],))
}
