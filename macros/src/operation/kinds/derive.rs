//! `derive`: merges the records of several entities into one array.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, Path, Token, parenthesized};

use super::record::{self, Optional};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::diagnostics::Diagnostics;
use crate::entity::{Kind as Type, field_number};
use crate::expr::{self, Filter, Resolved, Scope};
use crate::list::List;
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::Method;

const MERGES: &[&str] = &["union", "concat", "intersect", "first", "priority"];

/// `Comment, where = (expr), select = f, traverse(Post, on = post_id, select = g)`.
struct Written {
    path: Path,
    /// The condition of `where`.
    only: Option<Expr>,
    select: Option<Ident>,
    through: Option<Through>,
}

/// `traverse(Post, on = post_id, select = g)`.
struct Through {
    path: Path,
    on: Option<Ident>,
    select: Option<Ident>,
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut written = Self {
            path: input.parse()?,
            only: None,
            select: None,
            through: None,
        };
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
        let mut through = Self {
            path: input.parse()?,
            on: None,
            select: None,
        };
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
    syn::Error::new(
        key.span(),
        format!("unknown option `{name}` of a source; known: {known}"),
    )
}

/// Returns the entities that a declaration names.
fn entities(args: &Args, d: &mut Diagnostics) -> Vec<Path> {
    let written = sources(args, d);
    written
        .into_iter()
        .flat_map(|written| {
            std::iter::once(written.path).chain(written.through.map(|through| through.path))
        })
        .collect()
}

fn sources(args: &Args, d: &mut Diagnostics) -> Vec<Written> {
    let lists: Vec<List> = args
        .all("source")
        .filter_map(|opt| opt.list("source(Comment)", d))
        .collect();
    lists
        .into_iter()
        .filter_map(|list| d.take(list.parse()))
        .collect()
}

pub(super) const KIND: Kind = Kind {
    entities,
    repeated: &["source"],
    ..Kind::new(
        &kind::DERIVE,
        &[
            "source",
            "merge",
            "flatten",
            "post_filter",
            "optional_params",
        ],
        &["source", "merge"],
        model,
    )
};

struct Derive {
    optional: Optional,
    /// The number of sources in the declaration.
    written: usize,
    /// The sources that could be read.
    sources: Vec<Source>,
    merge: &'static str,
    flatten: bool,
    post_filter: Option<Resolved>,
    returns: Option<Returns>,
}

/// One source.
struct Source {
    path: Path,
    /// The position in the scope's siblings.
    owner: Option<usize>,
    only: Option<Resolved>,
    /// The selected field, if the records of the source itself are the items.
    select: Option<(usize, Ident)>,
    through: Option<Traverse>,
}

/// `traverse(..)`: reads keys from a field of the source records, and merges the records with these
/// keys instead of the source records.
struct Traverse {
    path: Path,
    owner: Option<usize>,
    /// The field with the keys, as written.
    at: Ident,
    on: usize,
    number: Literal,
    select: Option<(usize, Ident)>,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let optional = record::optional(args, scope);
    let written = sources(args, scope.d);
    let merge = args.choice("merge", MERGES, scope.d);
    let flatten = args.flag("flatten", scope.d);
    let count = written.len();
    let sources: Vec<Source> = written
        .into_iter()
        .filter_map(|w| source(w, &optional.names, scope))
        .collect();
    let mut resolved = Derive {
        optional,
        written: count,
        sources,
        merge,
        flatten,
        post_filter: None,
        returns: None,
    };
    if resolved.sources.len() == count {
        resolved.post_filter = resolved.post_filter(args, scope);
        resolved.returns = resolved.returns(scope);
    }
    Box::new(resolved)
}

impl KindModel for Derive {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let args = input.args;
        if let (1, "intersect" | "priority", Some(opt)) =
            (self.written, self.merge, args.get("merge"))
        {
            scope
                .d
                .error(
                    &opt.key,
                    format!("merge `{}` needs at least two sources", self.merge),
                )
                .help("another `source(..)`");
        }
        for source in &self.sources {
            source.check(scope);
        }
        let Some(first) = self
            .sources
            .first()
            .filter(|_| self.sources.len() == self.written)
        else {
            return;
        };
        let first_type = first.type_of(scope);
        for other in &self.sources[1..] {
            let other_type = other.type_of(scope);
            if first_type != other_type {
                let (path, _, select) = other.items();
                let at = select.map_or_else(
                    || path.to_token_stream(),
                    |(_, ident)| ident.to_token_stream(),
                );
                scope
                    .d
                    .error(
                        &at,
                        format!("sources yield `{first_type}` and `{other_type}`"),
                    )
                    .help("`select` one field of each, or records of one entity");
            }
        }
        if let (true, false, Some(opt)) =
            (self.flatten, first.has_lists(scope), args.get("flatten"))
        {
            scope
                .d
                .error(&opt.key, "`flatten` needs items that are lists of strings")
                .help("`select` a list");
        }
        if let (Some(filter), (_, _, Some((field, ident)))) = (&self.post_filter, first.items())
            && let Some(other) = other_field(filter, *field)
        {
            scope
                .d
                .error(
                    other,
                    format!(
                        "`post_filter` can use only `{ident}`, because the items are its values"
                    ),
                )
                .help(format!("`post_filter = ({ident} != ..)`"));
        }
        self.optional.check(scope);
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let errors = "`validation_failed` for more than 10,000 records of a source; the errors of the list route of each source.";
        Some(Plan::new(
            Shape::COLLECTION,
            Method::Get,
            self.returns.clone()?,
            errors,
        ))
    }

    fn expand(&self) -> TokenStream {
        let merge = format_ident!("{}", names::pascal(self.merge));
        let sources = self.sources.iter().map(Source::tokens);
        let flat = self.flatten.then(|| quote!(.flatten()));
        let post_filter = self
            .post_filter
            .as_ref()
            .map(|filter| quote!(.post_filter(#filter)));
        quote!(__lp::Derive::new(&[#(#sources),*], __lp::Merge::#merge) #flat #post_filter)
    }
}

impl Derive {
    /// Reads `post_filter = (..)`: a condition on the items. Its fields are those of the entity
    /// that the items of the first source belong to.
    fn post_filter(&self, args: &Args, scope: &mut Scope<'_>) -> Option<Resolved> {
        let expr = args.expr(
            "post_filter",
            "post_filter = (title != param(not))",
            scope.d,
        )?;
        if self.flatten {
            scope
                .d
                .error(expr, "`post_filter` with `flatten` is not supported yet")
                .help("use `where` in the sources");
            return None;
        }
        let (_, owner, _) = self.sources.first()?.items();
        let filter = Filter::parse(expr, scope.d)?;
        scope.within(owner, |scope| scope.filter(&filter, &self.optional.names))
    }

    /// Returns the type of the items.
    fn returns(&self, scope: &mut Scope<'_>) -> Option<Returns> {
        let (path, owner, select) = self.sources.first()?.items();
        Some(match select {
            None => Returns::Records(path.clone()),
            Some(_) if self.flatten => Returns::Values(quote!(::std::string::String)),
            Some((field, ident)) => {
                let krate = &scope.model.krate;
                let position = scope.within(owner, |scope| {
                    expr::position(scope, *field, &ident.to_token_stream())
                });
                Returns::Values(quote!(#krate::ValueAt<#position>))
            }
        })
    }
}

/// Resolves a source; `None` if a part of it could not be resolved.
fn source(written: Written, optional: &[String], scope: &mut Scope<'_>) -> Option<Source> {
    let Written {
        path,
        only,
        select,
        through,
    } = written;
    let owner = scope.sibling_named(&path);
    let (only, select, on) = scope.within(owner, |scope| {
        let only = only.map(|expr| {
            Filter::parse(&expr, scope.d).and_then(|filter| scope.filter(&filter, optional))
        });
        let select = select.map(|ident| selected(ident, scope));
        let on = through.as_ref().map(|through| match &through.on {
            Some(on) => scope
                .field(on)
                .map(|field| (on.clone(), field, scope.model.number(field))),
            None => {
                scope
                    .d
                    .error(&through.path, "`traverse` needs `on`")
                    .help("`traverse(Post, on = post_id)`");
                None
            }
        });
        (only, select, on)
    });
    // `Some(None)` is an option that could not be resolved, which has been reported.
    let only = match only {
        Some(None) => return None,
        only => only.flatten(),
    };
    let Some(through) = through else {
        let select = match select {
            Some(None) => return None,
            select => select.flatten(),
        };
        return Some(Source {
            path,
            owner,
            only,
            select,
            through: None,
        });
    };
    if let Some(Some((_, ident))) = select {
        scope
            .d
            .error(
                &ident,
                "`select` belongs in `traverse`, whose records are the items",
            )
            .help("move it there");
        return None;
    }
    let (at, on, number) = on.flatten()?;
    let target_sibling = scope.sibling_named(&through.path);
    let select = match through
        .select
        .map(|ident| scope.within(target_sibling, |scope| selected(ident, scope)))
    {
        Some(None) => return None,
        select => select.flatten(),
    };
    let through = Some(Traverse {
        path: through.path,
        owner: target_sibling,
        at,
        on,
        number,
        select,
    });
    Some(Source {
        path,
        owner,
        only,
        select: None,
        through,
    })
}

/// Returns the position of a field in `select`, and the field as written.
fn selected(ident: Ident, scope: &mut Scope<'_>) -> Option<(usize, Ident)> {
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    if !of.readable() {
        scope
            .d
            .error(
                &ident,
                format!("`{}` is hidden: clients may not read it", of.name),
            )
            .help("another field");
        return None;
    }
    if of.kind.is_opaque() {
        let text = format!("`{}` ({}) cannot be selected", of.name, expr::type_of(of));
        scope
            .d
            .error(&ident, text)
            .help("a field of plain values, or a list of strings");
        return None;
    }
    Some((field, ident))
}

impl Source {
    /// Returns the entity of the resulting records and their selected field. The entity is given by
    /// its path and its position in the scope's siblings.
    fn items(&self) -> (&Path, Option<usize>, Option<&(usize, Ident)>) {
        match &self.through {
            Some(through) => (&through.path, through.owner, through.select.as_ref()),
            None => (&self.path, self.owner, self.select.as_ref()),
        }
    }

    /// Checks that the field of `traverse` holds keys of the other entity.
    fn check(&self, scope: &mut Scope<'_>) {
        let Some(Traverse {
            path,
            owner,
            at,
            on,
            ..
        }) = &self.through
        else {
            return;
        };
        let key = scope.within(*owner, |scope| {
            scope.model.primary.map(|primary| scope.at(primary).kind)
        });
        let from = scope.within(self.owner, |scope| scope.at(*on).kind);
        let message = format!(
            "`{at}` does not contain keys of `{}`",
            path.to_token_stream()
        );
        if key.is_none_or(|key| key == Type::Other) || from == Type::Other {
            // The type is a name of the app, which only rustc knows.
            scope.within(self.owner, |scope| scope.require(*on, at, "KEYS", &message));
        } else if key.and_then(Type::name) != from.name() {
            scope.d.error(at, message);
        }
    }

    /// Whether the items are lists of strings.
    fn has_lists(&self, scope: &mut Scope<'_>) -> bool {
        let (_, owner, select) = self.items();
        select.is_some_and(|(field, _)| {
            scope.within(owner, |scope| scope.at(*field).kind == Type::StringArray)
        })
    }

    /// Returns the type as text, to compare sources.
    fn type_of(&self, scope: &mut Scope<'_>) -> String {
        let (path, owner, select) = self.items();
        match select {
            None => path.to_token_stream().to_string(),
            Some((field, _)) => scope.within(owner, |scope| {
                scope.at(*field).inner.to_token_stream().to_string()
            }),
        }
    }

    fn tokens(&self) -> TokenStream {
        let (path, only) = (
            &self.path,
            self.only.as_ref().map(|filter| quote!(.only(#filter))),
        );
        let number =
            |(field, ident): &(usize, Ident)| field_number(*field, &ident.unraw().to_string());
        let items = match &self.through {
            None => self
                .select
                .as_ref()
                .map(number)
                .map(|field| quote!(.select(#field))),
            Some(Traverse {
                path,
                number: on,
                select,
                ..
            }) => {
                let other = quote!(<#path as __lp::Entity>::DESC);
                Some(match select.as_ref().map(number) {
                    None => quote!(.through(#on, #other)),
                    Some(field) => quote!(.through_select(#on, #other, #field)),
                })
            }
        };
        quote!(__lp::Part::of(<#path as __lp::Entity>::DESC) #only #items)
    }
}

/// Returns the first field in the filter that is not `field`.
fn other_field(filter: &Resolved, field: usize) -> Option<&Ident> {
    match filter {
        Resolved::All(list) | Resolved::Any(list) => {
            list.iter().find_map(|filter| other_field(filter, field))
        }
        Resolved::Cond(cond) => (cond.field != field).then_some(&cond.ident),
    }
}
