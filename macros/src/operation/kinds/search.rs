//! `search`: finds the records whose text fields contain the searched text.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, Span, TokenStream};
use quote::quote;
use syn::Ident;
use syn::ext::IdentExt;

use super::record::{self, Optional};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::entity::Kind as Type;
use crate::expr::{Filter, Param, Resolved, Scope, Value, Via, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) const KIND: Kind = Kind::new(
    &kind::SEARCH,
    &[
        "fields",
        "filter",
        "paginate",
        "optional_params",
        "use_search_provider",
    ],
    &["fields"],
    model,
);

struct Search {
    /// The fields, each with its name as written.
    fields: Vec<(usize, Ident)>,
    numbers: Vec<Literal>,
    optional: Optional,
    filter: Option<Resolved>,
    paginate: bool,
    /// The value of `use_search_provider`, if the option is present.
    provider: Option<bool>,
    /// Whether the store searches, although the entity has a search provider.
    in_store: bool,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let fields = fields(args, scope);
    let provider = args
        .get("use_search_provider")
        .and_then(|opt| opt.boolean(scope.d));
    if let Some((first, _)) = fields.first() {
        // The searched text is a normal parameter, and the first one.
        let q = Ident::new("q", Span::call_site());
        let text = Param {
            element: true,
            ..Param::new(&q, Via::Param, *first)
        };
        scope.params.add(text, scope.model, scope.d);
    }
    let optional = record::optional(args, scope);
    let filter = args
        .expr("filter", "filter = (status == Status::Published)", scope.d)
        .filter(|_| !fields.is_empty());
    let filter = filter.and_then(|expr| {
        let filter = Filter::parse(expr, scope.d)?;
        scope.filter(&filter, &optional.names)
    });
    let numbers = fields
        .iter()
        .map(|(field, _)| scope.model.number(*field))
        .collect();
    let paginate = args.flag("paginate", scope.d);
    let in_store = provider == Some(false) && scope.model.search.is_some();
    Box::new(Search {
        fields,
        numbers,
        optional,
        filter,
        paginate,
        provider,
        in_store,
    })
}

impl KindModel for Search {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        self.check_provider(input, scope);
        if let Some(at) = self.filter.as_ref().and_then(uses_text) {
            scope
                .d
                .error(at, "parameter name `q` is reserved for the search text")
                .help("another name for the parameter");
        }
        if !self.fields.is_empty() {
            self.optional.check(scope);
        }
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        self.fields.first()?;
        let returns = if self.paginate {
            Returns::Page
        } else {
            Returns::List
        };
        let errors = "`validation_failed` for a blank search text, a search text of more than 512 characters, or a limit of 0.";
        Some(Plan::new(Shape::COLLECTION, Method::Get, returns, errors))
    }

    fn expand(&self) -> TokenStream {
        let fields = &self.numbers;
        let filter = self.filter.as_ref().map(|filter| quote!(.filter(#filter)));
        let paged = self.paginate.then(|| quote!(.paginate()));
        let in_store = self.in_store.then(|| quote!(.in_store()));
        quote!(__lp::Search::new(&[#(#fields),*]) #filter #paged #in_store)
    }
}

impl Search {
    /// Checks that the entity declares the provider, and that its index contains the searched
    /// fields.
    fn check_provider(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let (model, wanted) = (scope.model, self.provider);
        match (&model.search, input.args.get("use_search_provider")) {
            _ if model.has_unread_options => {}
            (None, Some(opt)) if wanted == Some(true) => {
                scope
                    .d
                    .error(
                        &opt.key,
                        format!("`{}` declares no search provider", model.name),
                    )
                    .help("`#[entity(search(provider = \"tantivy\", fields(title = 1)))]`");
            }
            (Some(search), _) if wanted != Some(false) => {
                for (field, at) in self
                    .fields
                    .iter()
                    .filter(|(field, _)| !search.contains(*field))
                {
                    let name = &scope.at(*field).name;
                    scope
                        .d
                        .error(at, format!("`{name}` is not in the search index of {}", model.name))
                        .help("add it to the fields of `search(..)`, or set `use_search_provider = false`");
                }
            }
            _ => {}
        }
    }
}

/// Returns the searched fields: texts that clients may read.
fn fields(args: &Args, scope: &mut Scope<'_>) -> Vec<(usize, Ident)> {
    let Some(opt) = args.get("fields") else {
        return Vec::new();
    };
    let idents = args.names("fields", scope.d);
    if idents.is_empty() && opt.is_empty_list() {
        scope
            .d
            .error(&opt.key, "`fields` is empty")
            .help("`fields(title)`");
    }
    let mut fields: Vec<(usize, Ident)> = Vec::new();
    for ident in idents {
        let Some(field) = scope.field(&ident) else {
            continue;
        };
        let of = scope.at(field);
        let name = ident.unraw();
        if fields.iter().any(|(other, _)| *other == field) {
            scope
                .d
                .error(&ident, format!("field `{name}` repeated in fields"));
            continue;
        }
        if !of.kind.may_be_text() {
            scope.d.error(
                &ident,
                format!("search needs string fields, `{name}` is {}", type_of(of)),
            );
        } else if !of.readable() {
            scope.d.error(
                &ident,
                format!("`{name}` is hidden: hits would reveal what clients may not read"),
            );
        } else if of.kind == Type::Other {
            scope.needs(field, &ident, "TEXTS", "search");
        }
        fields.push((field, ident));
    }
    fields
}

/// Returns a field that the filter compares with the searched text.
fn uses_text(filter: &Resolved) -> Option<&Ident> {
    match filter {
        Resolved::All(list) | Resolved::Any(list) => list.iter().find_map(uses_text),
        Resolved::Cond(cond) => cond
            .values
            .iter()
            .any(|value| matches!(value, Value::Param(0)))
            .then_some(&cond.ident),
    }
}
