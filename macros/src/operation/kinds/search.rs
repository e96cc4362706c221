//! `search`: the records in whose texts something stands.

use proc_macro2::Span;
use quote::quote;
use syn::Ident;
use syn::ext::IdentExt;

use super::{Kind, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{Filter, Param, Resolved, Scope, Value, Via, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) struct Search;

impl Kind for Search {
    fn name(&self) -> &'static str {
        "search"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "operation.search"
    }

    fn options(&self) -> &'static [&'static str] {
        &["fields", "filter", "paginate", "optional_params", "use_search_provider"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["fields"]
    }

    fn resolve(&self, args: &Args, _: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let fields = fields(args, scope);
        let in_store = provider(args, &fields, scope);
        let first = fields.first()?.0;
        // The text is a parameter like others, and the first of them.
        let q = Ident::new("q", Span::call_site());
        let text = Param { element: true, ..Param::new(&q, Via::Param, first) };
        scope.params.add(text, scope.model, scope.d);
        let optional = record::optional(args, scope);
        let filter = args.expr("filter", "filter = (status == Status::Published)", scope.d).and_then(|expr| {
            let filter = Filter::parse(expr, scope.d)?;
            scope.filter(&filter, &optional.names)
        });
        if let Some(at) = filter.as_ref().and_then(uses_text) {
            scope.d.error(at, "`q` is the text that is searched for").help("another name for the parameter");
        }
        optional.check(scope);
        let paginate = args.flag("paginate", scope.d);
        let places = fields.iter().map(|(field, _)| scope.model.number(*field));
        let filter = filter.map(|filter| quote!(.filter(#filter)));
        let paged = paginate.then(|| quote!(.paginate()));
        let in_store = in_store.then(|| quote!(.in_store()));
        Some(Plan {
            descriptor: quote!(__lp::Search::new(&[#(#places),*]) #filter #paged #in_store),
            shape: Shape::Collection { segments: Vec::new() },
            method: Method::Get,
            returns: if paginate { Returns::Page } else { Returns::List },
            errors: "`validation_failed` for a blank text, one of more than 512 characters, or a limit of 0.",
            parts: Vec::new(),
            list: 0,
        })
    }
}

/// The fields that are searched: texts that clients may read.
fn fields(args: &Args, scope: &mut Scope<'_>) -> Vec<(usize, Ident)> {
    let Some(opt) = args.get("fields") else { return Vec::new() };
    let idents = args.names("fields", scope.d);
    if idents.is_empty() && opt.is_empty_list() {
        scope.d.error(&opt.key, "`fields` is empty").help("`fields(title)`");
    }
    let mut fields: Vec<(usize, Ident)> = Vec::new();
    for ident in idents {
        let Some(field) = scope.field(&ident) else { continue };
        let of = scope.at(field);
        let name = ident.unraw();
        if fields.iter().any(|(other, _)| *other == field) {
            scope.d.error(&ident, format!("field `{name}` repeated in fields"));
            continue;
        }
        if !of.kind.may_be_text() {
            scope.d.error(&ident, format!("search needs string fields, `{name}` is {}", type_of(of)));
        } else if !of.readable() {
            scope.d.error(&ident, format!("`{name}` is hidden: hits would reveal what clients may not read"));
        } else if of.kind == Type::Other {
            scope.needs(field, &ident, "TEXTS", "search");
        }
        fields.push((field, ident));
    }
    fields
}

/// Whether the store searches although the entity has a provider. What a provider searches must be in its index.
fn provider(args: &Args, fields: &[(usize, Ident)], scope: &mut Scope<'_>) -> bool {
    let opt = args.get("use_search_provider");
    let wanted = opt.and_then(|opt| opt.boolean(scope.d));
    let model = scope.model;
    match (&model.search, opt) {
        _ if model.unsure => {}
        (None, Some(opt)) if wanted == Some(true) => {
            scope
                .d
                .error(&opt.key, format!("`{}` names no search provider", model.name))
                .help("`#[entity(search(provider = \"tantivy\", fields(title = 1)))]`");
        }
        (Some(search), _) if wanted != Some(false) => {
            for (field, at) in fields.iter().filter(|(field, _)| !search.holds(*field)) {
                let name = &scope.at(*field).name;
                scope
                    .d
                    .error(at, format!("`{name}` is not in the search index of {}", model.name))
                    .help("add it to the fields of `search(..)`, or say `use_search_provider = false`");
            }
        }
        _ => {}
    }
    wanted == Some(false) && model.search.is_some()
}

/// Where a filter uses the text that is searched for.
fn uses_text(filter: &Resolved) -> Option<&Ident> {
    match filter {
        Resolved::All(list) | Resolved::Any(list) => list.iter().find_map(uses_text),
        Resolved::Cond(cond) => cond.values.iter().any(|value| matches!(value, Value::Param(0))).then_some(&cond.ident),
    }
}
