//! `collection`: reads and changes the items of a list inside a record.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use syn::Ident;
use syn::ext::IdentExt;

use super::{Input, Kind, KindModel, Part, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{Scope, type_of};
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::{Method, RouteArgs, RouteOverride};
use crate::options;
use crate::policy;

pub(super) const KIND: Kind = Kind::new(
    &kind::COLLECTION,
    &["field", "operations", "identify_by", "max_items"],
    &["field", "operations"],
    model,
);

/// The methods: name, HTTP method, whether the path contains the key of an item, and the form of
/// the body.
const METHODS: [(&str, Method, bool, Option<&str>); 5] = [
    ("list", Method::Get, false, None),
    ("add", Method::Post, false, Some("Item")),
    ("remove", Method::Delete, true, None),
    ("update", Method::Patch, true, Some("Patch")),
    ("set", Method::Put, false, Some("Items")),
];

struct Collection {
    /// The list field, and its name as written.
    field: Option<(usize, Ident)>,
    number: Literal,
    /// The member that identifies an item.
    key: String,
    max: Option<Literal>,
    chosen: Vec<&'static str>,
    routes: Vec<(&'static str, RouteArgs)>,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let field = field(args, scope);
    let key = args.ident("identify_by", "identify_by = id", scope.d);
    let key = key.map_or_else(|| "id".to_owned(), |ident| ident.unraw().to_string());
    let max = max_items(args, scope);
    let chosen = methods(args, scope);
    let routes = routes(args, input.name, &chosen, scope);
    let number = scope
        .model
        .number(field.as_ref().map_or(0, |(field, _)| *field));
    Box::new(Collection {
        field,
        number,
        key,
        max,
        chosen,
        routes,
    })
}

impl KindModel for Collection {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let Some((field, ident)) = &self.field else {
            return;
        };
        let of = scope.at(*field);
        if !of.readable() {
            scope.d.error(
                ident,
                format!(
                    "`{}` is hidden, and a collection returns its items",
                    of.name
                ),
            );
        }
        if record::mutable(*field, ident, scope)
            && let Some(option) = input.args.get("field")
        {
            let at = input
                .args
                .get("identify_by")
                .map_or_else(|| option.key.clone(), |opt| opt.key.clone());
            scope.check_item_key(*field, &at, &names::camel(&self.key), &self.key);
        }
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let (list, _) = self.field.as_ref()?;
        let part = |(method, http, has_item_key, body_form): (
            &'static str,
            Method,
            bool,
            Option<&'static str>,
        )| {
            let own = self
                .routes
                .iter()
                .find(|(name, _)| *name == method)
                .map(|(_, route)| route);
            Part {
                name: method,
                descriptor: self.descriptor(method),
                method: http,
                has_item_key,
                body_form,
                policy: own
                    .map(|route| route.policy.clone())
                    .filter(|policy| !policy.is_inherit()),
                route_override: own
                    .map(|route| route.route_override.clone())
                    .unwrap_or_default(),
            }
        };
        let parts: Vec<Part> = METHODS
            .into_iter()
            .filter(|(method, ..)| self.chosen.contains(method))
            .map(part)
            .collect();
        parts.first()?;
        let errors = "`not_found`; `validation_failed`; `conflict` if the item exists already; `collection_full`.";
        Some(Plan {
            parts,
            list: *list,
            ..Plan::new(Shape::ById, Method::Get, Returns::Nothing, errors)
        })
    }

    fn expand(&self) -> TokenStream {
        METHODS
            .iter()
            .find(|(method, ..)| self.chosen.contains(method))
            .map(|(method, ..)| self.descriptor(method))
            .unwrap_or_default()
    }
}

impl Collection {
    /// Returns the descriptor of one method.
    fn descriptor(&self, method: &str) -> TokenStream {
        let (variant, field, wire) = (
            format_ident!("{}", names::pascal(method)),
            &self.number,
            names::camel(&self.key),
        );
        let max = self.max.as_ref().map(|max| quote!(.max(#max)));
        quote!(__lp::Collection::new(__lp::CollectionMethod::#variant, #field, #wire) #max)
    }
}

/// Returns the position of the list field, and the field as written.
fn field(args: &Args, scope: &mut Scope<'_>) -> Option<(usize, Ident)> {
    let ident = args.ident("field", "field = revisions", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    if of.kind != Type::Items {
        // The macro cannot see that an alias is a list. So a field with such a type is refused too.
        scope
            .d
            .error(
                &ident,
                format!(
                    "`{}` is not a list of items: it is {}",
                    of.name,
                    type_of(of)
                ),
            )
            .help("`Vec<Item>`");
        return None;
    }
    Some((field, ident))
}

fn max_items(args: &Args, scope: &mut Scope<'_>) -> Option<Literal> {
    let expr = args.expr("max_items", "max_items = 50", scope.d)?;
    let max = options::as_int(expr)
        .and_then(Result::ok)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n >= 1);
    if max.is_none() {
        scope
            .d
            .error(expr, "`max_items` must be a whole number of at least 1")
            .help("`max_items = 50`");
    }
    max.map(Literal::u32_unsuffixed)
}

fn methods(args: &Args, scope: &mut Scope<'_>) -> Vec<&'static str> {
    let idents = args.names("operations", scope.d);
    if let Some(opt) = args
        .get("operations")
        .filter(|opt| idents.is_empty() && opt.is_empty_list())
    {
        scope
            .d
            .error(&opt.key, "`operations` is empty")
            .help("`operations(list, add, remove)`");
    }
    let mut chosen: Vec<&'static str> = Vec::new();
    for ident in &idents {
        let written = ident.to_string();
        match METHODS.iter().find(|(name, ..)| *name == written) {
            Some((name, ..)) if chosen.contains(name) => {
                scope
                    .d
                    .error(ident, format!("method `{name}` is listed twice"))
                    .help("keep one of them");
            }
            Some((name, ..)) => chosen.push(name),
            None => {
                let known = METHODS.map(|(name, ..)| name);
                scope
                    .d
                    .error(ident, format!("unknown method `{written}`"))
                    .suggest(&written, known);
            }
        }
    }
    chosen
}

/// Reads `route(members_add(roles = [..]))`: policies, methods and paths of single methods.
fn routes(
    args: &Args,
    name: &str,
    chosen: &[&'static str],
    scope: &mut Scope<'_>,
) -> Vec<(&'static str, RouteArgs)> {
    let own: Vec<String> = chosen
        .iter()
        .map(|method| format!("{name}_{method}"))
        .collect();
    let mut routes = Vec::new();
    for opt in &args.route.others {
        let Some(at) = own.iter().position(|method| *method == opt.name()) else {
            let known: Vec<&str> = policy::KEYS
                .iter()
                .copied()
                .chain(own.iter().map(String::as_str))
                .collect();
            options::unknown(opt, "route", &known, policy::PLANNED_KEYS, scope.d);
            continue;
        };
        let Some(list) = opt.list(&format!("{}(auth = none)", own[at]), scope.d) else {
            continue;
        };
        let route = RouteArgs::parse(list, scope.d);
        route.refuse_others_of(&own[at], scope.d);
        routes.push((chosen[at], route));
    }
    let RouteOverride { method, path } = &args.route.route_override;
    let common = [
        method.as_ref().map(|(_, at)| ("method", at, "POST")),
        path.as_ref().map(|(_, at)| ("path", at, "{id}/..")),
    ];
    for (key, at, value) in common.into_iter().flatten() {
        let problem = scope.d.error(
            at,
            format!(
                "`{key}` is not allowed for the whole collection: each of its methods has its own route"
            ),
        );
        if let Some(method) = own.first() {
            problem.help(format!("`{method}({key} = \"{value}\")`"));
        }
    }
    routes
}
