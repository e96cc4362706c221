//! `collection`: the items of a list inside a record, one by one.

use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;

use super::{Kind, Part, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{Scope, type_of};
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::{Method, Moved, RouteArgs};
use crate::options::{self, OptValue};
use crate::policy;

pub(super) struct Collection;

/// Name, HTTP method, whether the path names an item, what the body is.
const METHODS: [(&str, Method, bool, Option<&str>); 5] = [
    ("list", Method::Get, false, None),
    ("add", Method::Post, false, Some("Item")),
    ("remove", Method::Delete, true, None),
    ("update", Method::Patch, true, Some("Patch")),
    ("set", Method::Put, false, Some("Items")),
];

impl Kind for Collection {
    fn name(&self) -> &'static str {
        "collection"
    }

    fn capability(&self, args: &Args) -> &'static str {
        let methods = args.get("operations").map(|opt| &opt.value);
        let reads =
            matches!(methods, Some(OptValue::List(list)) if list.to_token_stream().to_string().trim_end_matches(',').trim() == "list");
        if reads { "collection.list" } else { "atomic.collection" }
    }

    fn options(&self) -> &'static [&'static str] {
        &["field", "operations", "identify_by", "max_items"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["field", "operations"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let field = field(args, scope);
        let key = args.ident("identify_by", "identify_by = id", scope.d);
        let key = key.map_or_else(|| "id".to_owned(), |ident| ident.unraw().to_string());
        let max = max_items(args, scope).map(|max| quote!(.max(#max)));
        let chosen = methods(args, scope);
        let routes = routes(args, name, &chosen, scope);
        let (field, wire) = (field?, names::camel(&key));
        if let Some(option) = args.get("field") {
            let at = args.get("identify_by").map_or_else(|| option.key.clone(), |opt| opt.key.clone());
            scope.identified(field, &at, &wire, &key);
        }
        let index = scope.model.number(field);
        let part = |(method, http, item, whole): (&'static str, Method, bool, Option<&'static str>)| {
            let variant = format_ident!("{}", names::pascal(method));
            let own = routes.iter().find(|(of, _)| *of == method).map(|(_, route)| route);
            Part {
                name: method,
                descriptor: quote!(__lp::Collection::new(__lp::CollectionMethod::#variant, #index, #wire) #max),
                method: http,
                item,
                whole,
                policy: own.map(|route| route.policy.clone()).filter(|policy| !policy.is_inherit()),
                moved: own.map(|route| route.moved.clone()).unwrap_or_default(),
            }
        };
        let parts: Vec<Part> = METHODS.into_iter().filter(|(method, ..)| chosen.contains(method)).map(part).collect();
        Some(Plan {
            descriptor: parts.first().map(|part| part.descriptor.clone())?,
            shape: Shape::ById,
            method: Method::Get,
            returns: Returns::Nothing,
            errors: "`not_found`; `validation_failed`; `conflict` for an item that is there; `collection_full`.",
            parts,
            list: field,
        })
    }
}

fn field(args: &Args, scope: &mut Scope<'_>) -> Option<usize> {
    let ident = args.ident("field", "field = revisions", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    if of.kind != Type::Items {
        // A list behind another name cannot be told from other types here.
        scope.d.error(&ident, format!("`{}` is not a list of items: it is {}", of.name, type_of(of))).help("`Vec<Item>`");
        return None;
    }
    if !of.readable() {
        scope.d.error(&ident, format!("`{}` is hidden, and a collection answers its items", of.name));
    }
    record::mutable(field, &ident, scope).then_some(field)
}

fn max_items(args: &Args, scope: &mut Scope<'_>) -> Option<proc_macro2::Literal> {
    let expr = args.expr("max_items", "max_items = 50", scope.d)?;
    let max = options::as_int(expr).and_then(Result::ok).and_then(|n| u32::try_from(n).ok()).filter(|n| *n >= 1);
    if max.is_none() {
        scope.d.error(expr, "`max_items` is a whole number from 1 on").help("`max_items = 50`");
    }
    max.map(proc_macro2::Literal::u32_unsuffixed)
}

fn methods(args: &Args, scope: &mut Scope<'_>) -> Vec<&'static str> {
    let idents = args.names("operations", scope.d);
    if let Some(opt) = args.get("operations").filter(|opt| idents.is_empty() && opt.is_empty_list()) {
        scope.d.error(&opt.key, "`operations` is empty").help("`operations(list, add, remove)`");
    }
    let mut chosen: Vec<&'static str> = Vec::new();
    for ident in &idents {
        let written = ident.to_string();
        match METHODS.iter().find(|(name, ..)| *name == written) {
            Some((name, ..)) if chosen.contains(name) => {
                scope.d.error(ident, format!("method `{name}` is listed twice")).help("keep one of them");
            }
            Some((name, ..)) => chosen.push(name),
            None => {
                let known = METHODS.map(|(name, ..)| name);
                scope.d.error(ident, format!("unknown method `{written}`")).suggest(&written, known);
            }
        }
    }
    chosen
}

/// `route(members_add(roles = [..]))`: policies, methods and paths of single methods.
fn routes(args: &Args, name: &str, chosen: &[&'static str], scope: &mut Scope<'_>) -> Vec<(&'static str, RouteArgs)> {
    let own: Vec<String> = chosen.iter().map(|method| format!("{name}_{method}")).collect();
    let mut routes = Vec::new();
    for opt in &args.route.others {
        let Some(at) = own.iter().position(|method| *method == opt.name()) else {
            let known: Vec<&str> = policy::KEYS.iter().copied().chain(own.iter().map(String::as_str)).collect();
            options::unknown(opt, "route", &known, policy::LATER, scope.d);
            continue;
        };
        let Some(list) = opt.list(&format!("{}(auth = none)", own[at]), scope.d) else { continue };
        let route = RouteArgs::parse(list, scope.d);
        route.refuse_others_of(&own[at], scope.d);
        routes.push((chosen[at], route));
    }
    let Moved { method, path } = &args.route.moved;
    let common = [method.as_ref().map(|(_, at)| ("method", at, "POST")), path.as_ref().map(|(_, at)| ("path", at, "{id}/.."))];
    for (key, at, value) in common.into_iter().flatten() {
        let problem = scope.d.error(at, format!("a collection has a route for each of its methods, and each has a {key} of its own"));
        if let Some(method) = own.first() {
            problem.help(format!("`{method}({key} = \"{value}\")`"));
        }
    }
    routes
}
