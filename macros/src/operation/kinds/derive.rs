//! `derive`: one array out of the records of several entities.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, Path, Token, parenthesized};

use super::{Kind, Plan, Returns, Shape, record};
use crate::diagnostics::Diagnostics;
use crate::entity::{Kind as Type, field_number};
use crate::expr::{self, Filter, Resolved, Scope};
use crate::list::List;
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::Method;

const MERGES: &[&str] = &["union", "concat", "intersect", "first", "priority"];

pub(super) struct Derive;

/// `Comment, where = (expr), select = f, traverse(Post, on = post_id, select = g)`.
struct Written {
    path: Path,
    only: Option<Expr>,
    select: Option<Ident>,
    through: Option<Through>,
}

struct Through {
    path: Path,
    on: Option<Ident>,
    select: Option<Ident>,
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut written = Self { path: input.parse()?, only: None, select: None, through: None };
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let key = input.call(syn::ext::IdentExt::parse_any)?;
            match Ident::to_string(&key).as_str() {
                "where" => {
                    input.parse::<Token![=]>()?;
                    written.only = Some(input.parse()?);
                }
                "select" => {
                    input.parse::<Token![=]>()?;
                    written.select = Some(input.parse()?);
                }
                "traverse" => {
                    let inside;
                    parenthesized!(inside in input);
                    written.through = Some(inside.parse()?);
                }
                other => return Err(unknown(&key, other, "`where`, `select`, `traverse`")),
            }
        }
        Ok(written)
    }
}

impl Parse for Through {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut through = Self { path: input.parse()?, on: None, select: None };
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let key: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match key.to_string().as_str() {
                "on" => through.on = Some(input.parse()?),
                "select" => through.select = Some(input.parse()?),
                other => return Err(unknown(&key, other, "`on`, `select`")),
            }
        }
        Ok(through)
    }
}

fn unknown(key: &Ident, name: &str, known: &str) -> syn::Error {
    syn::Error::new(key.span(), format!("unknown option `{name}` of a source; known: {known}"))
}

/// The entities that a declaration names.
pub(super) fn entities(args: &Args, d: &mut Diagnostics) -> Vec<Path> {
    let written = sources(args, d);
    written.into_iter().flat_map(|written| std::iter::once(written.path).chain(written.through.map(|through| through.path))).collect()
}

fn sources(args: &Args, d: &mut Diagnostics) -> Vec<Written> {
    let lists: Vec<List> = args.all("source").filter_map(|opt| opt.list("source(Comment)", d)).collect();
    lists.into_iter().filter_map(|list| d.take(list.parse())).collect()
}

/// What a source yields.
struct Item {
    path: Path,
    /// In the scope's siblings.
    owner: Option<usize>,
    select: Option<(usize, Ident)>,
}

impl Kind for Derive {
    fn name(&self) -> &'static str {
        "derive"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "operation.derive"
    }

    fn options(&self) -> &'static [&'static str] {
        &["source", "merge", "flatten", "post_filter", "optional_params"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["source", "merge"]
    }

    fn resolve(&self, args: &Args, _: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let optional = record::optional(args, scope);
        let written = sources(args, scope.d);
        let merge = args.choice("merge", MERGES, scope.d);
        if let (1, "intersect" | "priority", Some(opt)) = (written.len(), merge, args.get("merge")) {
            scope.d.error(&opt.key, format!("merge `{merge}` needs at least two sources")).help("another `source(..)`");
        }
        let flatten = args.flag("flatten", scope.d);
        let parts: Vec<Option<(TokenStream, Item)>> = written.into_iter().map(|w| part(w, &optional.names, scope)).collect();
        let parts: Vec<(TokenStream, Item)> = parts.into_iter().collect::<Option<_>>()?;
        let (_, first) = parts.first()?;
        let own = type_of(first, scope);
        for (_, other) in &parts[1..] {
            let theirs = type_of(other, scope);
            if own != theirs {
                let at = other.select.as_ref().map_or_else(|| other.path.to_token_stream(), |(_, ident)| ident.to_token_stream());
                scope
                    .d
                    .error(&at, format!("sources yield `{own}` and `{theirs}`"))
                    .help("`select` one field of each, or records of one entity");
            }
        }
        let lists = first.select.as_ref().is_some_and(|(field, _)| kind(first, *field, scope) == Type::StringArray);
        if let (true, false, Some(opt)) = (flatten, lists, args.get("flatten")) {
            scope.d.error(&opt.key, "`flatten` opens lists of strings, and the items are none").help("`select` a list");
        }
        let post_filter = args.expr("post_filter", "post_filter = (title != param(not))", scope.d).and_then(|expr| {
            if flatten {
                scope.d.error(expr, "`post_filter` over opened lists is not supported yet").help("`where` in the sources");
                return None;
            }
            let filter = Filter::parse(expr, scope.d)?;
            let filter = scope.within(first.owner, |scope| scope.filter(&filter, &optional.names))?;
            if let Some((field, ident)) = &first.select
                && let Some(other) = beside(&filter, *field)
            {
                scope.d.error(other, format!("the items are values of `{ident}` alone")).help(format!("`post_filter = ({ident} != ..)`"));
            }
            Some(filter)
        });
        optional.check(scope);
        let path = &first.path;
        let returns = match &first.select {
            None => Returns::Records(path.clone()),
            Some(_) if flatten => Returns::Values(quote!(::std::string::String)),
            Some((field, ident)) => {
                let krate = &scope.model.krate;
                let position = scope.within(first.owner, |scope| expr::position(scope, *field, &ident.to_token_stream()));
                Returns::Values(quote!(#krate::ValueAt<#position>))
            }
        };
        let merge = format_ident!("{}", names::pascal(merge));
        let sources = parts.iter().map(|(part, _)| part);
        let flat = flatten.then(|| quote!(.flatten()));
        let post_filter = post_filter.map(|filter| quote!(.post_filter(#filter)));
        Some(Plan {
            descriptor: quote!(__lp::Derive::new(&[#(#sources),*], __lp::Merge::#merge) #flat #post_filter),
            shape: Shape::Collection { segments: Vec::new() },
            method: Method::Get,
            returns,
            errors: "`validation_failed` for more than 10,000 records of a source; those of the sources' own lists.",
            parts: Vec::new(),
            list: 0,
        })
    }
}

fn part(written: Written, optional: &[String], scope: &mut Scope<'_>) -> Option<(TokenStream, Item)> {
    let Written { path, only, select, through } = written;
    let owner = scope.named(&path);
    let (only, select, on) = scope.within(owner, |scope| {
        let only = only.map(|expr| Filter::parse(&expr, scope.d).and_then(|filter| scope.filter(&filter, optional)));
        let select = select.map(|ident| selected(ident, scope));
        let on = through.as_ref().map(|through| match &through.on {
            Some(on) => scope.field(on),
            None => {
                scope.d.error(&through.path, "`traverse` needs `on`").help("`traverse(Post, on = post_id)`");
                None
            }
        });
        (only, select, on)
    });
    let only = match only {
        Some(None) => return None,
        only => only.flatten().map(|filter| quote!(.only(#filter))),
    };
    let entity = quote!(<#path as __lp::Entity>::DESC);
    let Some(through) = through else {
        let select = match select {
            Some(None) => return None,
            select => select.flatten(),
        };
        let field = select.as_ref().map(|(field, ident)| field_number(*field, &ident.unraw().to_string()));
        let field = field.map(|field| quote!(.select(#field)));
        return Some((quote!(__lp::Part::of(#entity) #only #field), Item { path, owner, select }));
    };
    if let Some(Some((_, ident))) = select {
        scope.d.error(&ident, "`select` stands in `traverse`, whose records are the items").help("move it there");
        return None;
    }
    let on = on.flatten()?;
    let to = scope.named(&through.path);
    if let Some(at) = &through.on {
        let key = scope.within(to, |scope| scope.model.primary.map(|primary| scope.at(primary).kind));
        let from = scope.within(owner, |scope| scope.at(on).kind);
        let known = key.is_some_and(|key| key != Type::Other) && from != Type::Other;
        if !known {
            // A name of the user's: rustc knows what it stands for.
            let message = format!("`{at}` holds no keys of `{}`", through.path.to_token_stream());
            scope.within(owner, |scope| scope.require(on, at, "KEYS", &message));
        } else if key.and_then(Type::name) != from.name() {
            let path = &through.path;
            scope.d.error(at, format!("`{at}` holds no keys of `{}`", path.to_token_stream()));
        }
    }
    let select = match through.select.map(|ident| scope.within(to, |scope| selected(ident, scope))) {
        Some(None) => return None,
        select => select.flatten(),
    };
    let on = scope.within(owner, |scope| scope.model.number(on));
    let path = through.path;
    let other = quote!(<#path as __lp::Entity>::DESC);
    let further = match &select {
        None => quote!(.through(#on, #other)),
        Some((field, ident)) => {
            let field = field_number(*field, &ident.unraw().to_string());
            quote!(.through_select(#on, #other, #field))
        }
    };
    Some((quote!(__lp::Part::of(#entity) #only #further), Item { path, owner: to, select }))
}

fn selected(ident: Ident, scope: &mut Scope<'_>) -> Option<(usize, Ident)> {
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    if !of.readable() {
        scope.d.error(&ident, format!("`{}` is hidden: clients may not read it", of.name)).help("another field");
        return None;
    }
    if of.kind.is_opaque() {
        let text = format!("`{}` ({}) cannot be selected", of.name, expr::type_of(of));
        scope.d.error(&ident, text).help("a field of plain values, or a list of strings");
        return None;
    }
    Some((field, ident))
}

fn kind(item: &Item, field: usize, scope: &mut Scope<'_>) -> Type {
    scope.within(item.owner, |scope| scope.at(field).kind)
}

/// In words, so that sources can be compared.
fn type_of(item: &Item, scope: &mut Scope<'_>) -> String {
    match &item.select {
        None => item.path.to_token_stream().to_string(),
        Some((field, _)) => scope.within(item.owner, |scope| scope.at(*field).inner.to_token_stream().to_string()),
    }
}

/// A condition on another field.
fn beside(filter: &Resolved, field: usize) -> Option<&Ident> {
    match filter {
        Resolved::All(list) | Resolved::Any(list) => list.iter().find_map(|filter| beside(filter, field)),
        Resolved::Cond(cond) => (cond.field != field).then_some(&cond.ident),
    }
}
