//! `search`: the records in whose texts something stands.

use proc_macro2::Span;
use quote::quote;
use syn::Ident;
use syn::ext::IdentExt;

use super::{Kind, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{self, Filter, Param, Resolved, Scope, Value, Via, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) struct Search;

impl Kind for Search {
    fn name(&self) -> &'static str {
        "search"
    }

    fn capability(&self) -> &'static str {
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
        if let Some(opt) = args.get("use_search_provider")
            && opt.boolean(scope.d) == Some(true)
        {
            scope.d.error(&opt.key, "search providers are not supported yet").help("leave the option out: the store itself searches");
        }
        let first = *fields.first()?;
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
        let places = fields.iter().map(|field| expr::index(*field));
        let filter = filter.map(|filter| quote!(.filter(#filter)));
        let paged = paginate.then(|| quote!(.paginate()));
        Some(Plan {
            descriptor: quote!(__lp::Search::new(&[#(#places),*]) #filter #paged),
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
fn fields(args: &Args, scope: &mut Scope<'_>) -> Vec<usize> {
    let Some(opt) = args.get("fields") else { return Vec::new() };
    let idents = args.names("fields", scope.d);
    if idents.is_empty() && opt.is_empty_list() {
        scope.d.error(&opt.key, "`fields` is empty").help("`fields(title)`");
    }
    let mut fields = Vec::new();
    for ident in idents {
        let Some(field) = scope.field(&ident) else { continue };
        let of = scope.at(field);
        let name = ident.unraw();
        if fields.contains(&field) {
            scope.d.error(&ident, format!("field `{name}` repeated in fields"));
            continue;
        }
        if !of.kind.may_be_text() {
            scope.d.error(&ident, format!("search needs string fields, `{name}` is {}", type_of(of)));
        } else if !of.readable() {
            scope.d.error(&ident, format!("`{name}` is hidden: hits would reveal what clients may not read"));
        } else if of.kind == Type::Other {
            scope.require(field, &ident, "TEXTS", &format!("search needs string fields, which `{name}` is not"));
        }
        fields.push(field);
    }
    fields
}

/// Where a filter uses the text that is searched for.
fn uses_text(filter: &Resolved) -> Option<&Ident> {
    match filter {
        Resolved::All(list) | Resolved::Any(list) => list.iter().find_map(uses_text),
        Resolved::Cond(cond) => cond.values.iter().any(|value| matches!(value, Value::Param(0))).then_some(&cond.ident),
    }
}
