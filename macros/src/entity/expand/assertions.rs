//! The checks that only rustc can make. The spans point at the code of the app.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned;

use super::descriptor::pagination;
use crate::entity::field::{Default, Field, Flag, Kind};
use crate::entity::model::EntityModel;
use crate::entity::{check, gates, relations, search, summaries, visibility};
use crate::expr::{CtxPath, at};

/// Asserts that context values have the types of their fields.
fn context_values(model: &EntityModel) -> TokenStream {
    let module = &model.generated.module;
    let defaults = model
        .fields
        .iter()
        .filter_map(|field| match &field.options.default {
            Default::Ctx(CtxPath::Value(path), _) => Some((field, path)),
            _ => None,
        });
    let scopes = model
        .visibility
        .scopes
        .iter()
        .filter_map(|scope| match &scope.from {
            visibility::ScopeSource::Ctx(CtxPath::Value(path), _) => {
                Some((&model.fields[scope.field], path))
            }
            _ => None,
        });
    let check = |(field, path): (&Field, &syn::Path)| {
        let (ident, name) = (&field.ident, &field.name);
        let marker = at(quote!(#module::#ident), &path.to_token_stream());
        quote_spanned!(path.span()=> const _: () = __lp::expect_context::<#marker>(<#path as __lp::ContextValue>::DESC, #name);)
    };
    defaults.chain(scopes).map(check).collect()
}

/// The checks that need types and consts: fields with aliased types, limits with a path.
pub(super) fn assertions(model: &EntityModel) -> TokenStream {
    if model.inert {
        return TokenStream::new();
    }
    let module = &model.generated.module;
    let mut out = TokenStream::new();
    // `kinds` is the name of the runtime's constant that lists the allowed kinds.
    let mut expect = |field: &Field, at: Span, kinds: &str, message: String, help: &str| {
        if field.kind == Kind::Other {
            // All tokens get the same span. Otherwise rustc underlines everything from the first
            // to the last token.
            let at_span = |ident: &Ident| {
                let mut ident = ident.clone();
                ident.set_span(at);
                ident
            };
            let (module, ident, kinds) = (
                at_span(module),
                at_span(&field.ident),
                Ident::new(kinds, at),
            );
            let message = format!("linchpin: {message}\nhelp: {help}");
            out.extend(quote_spanned!(at=> const _: () = __lp::expect::<#module::#ident>(__lp::#kinds, #message);));
        }
    };
    for field in &model.fields {
        let (name, text) = (&field.name, check::kind_text(field));
        if field.has(Flag::Primary) {
            expect(
                field,
                field.ty.span(),
                "KEYS",
                format!("primary key `{name}` must be String or i64, found {text}"),
                "`String`",
            );
        }
        match &field.options.default {
            Default::Uuid(word) | Default::Cuid(word) => {
                let message = format!("default `{word}` needs a string field, `{name}` is {text}");
                expect(field, word.span(), "TEXTS", message, "make it a `String`");
            }
            Default::Now(word) => {
                let message = format!("default `now` needs a date field, `{name}` is {text}");
                expect(
                    field,
                    word.span(),
                    "DATES",
                    message,
                    "make it a `Timestamp`",
                );
            }
            Default::Ctx(CtxPath::Claim(_) | CtxPath::Value(_), _) => {}
            Default::Ctx(_, value) => {
                let message = format!("this value is a string, but `{name}` is not");
                expect(field, value.span(), "NAMES", message, "make it a `String`");
            }
            _ => {}
        }
        if let Some(at) = &field.options.on_update {
            let message = format!("`on_update = now` needs a date field, `{name}` is {text}");
            expect(field, at.span(), "DATES", message, "make it a `Timestamp`");
        }
        for (key, kinds) in field.options.rules.keys() {
            let of = match kinds {
                "TEXTS" => "string",
                "TEXT_LISTS" => "string_array",
                "LISTS" => "list",
                "DATES" => "date",
                "INTEGERS" => "integer",
                _ => "number",
            };
            let message = format!("`{key}` is not allowed on field `{name}` of type {text}");
            expect(
                field,
                key.span(),
                kinds,
                message,
                &format!("with this value, `{key}` is only for {of} fields"),
            );
        }
        for flag in [Flag::Filterable, Flag::Sortable] {
            if let Some(at) = field.options.flag(flag) {
                expect(
                    field,
                    at.span(),
                    "SCALARS",
                    format!("`{at}` is not allowed on field `{name}` of type {text}"),
                    "leave the option out",
                );
            }
        }
    }
    for (field, at) in check::unfillable(model) {
        expect(
            field,
            at.span(),
            "LISTS",
            check::unfillable_text(field),
            &check::unfillable_help(field),
        );
    }
    for (field, at, kinds, message, help) in visibility::assertions(model) {
        expect(&model.fields[field], at, kinds, message, help);
    }
    for (field, at, message) in search::assertions(model) {
        expect(&model.fields[field], at, "TEXTS", message, "leave it out");
    }
    let lists = model
        .indexes
        .iter()
        .flat_map(|i| &i.fields)
        .chain(model.uniques.iter().flat_map(|u| &u.fields))
        .chain(&model.sort);
    for place in lists {
        let field = &model.fields[place.field];
        let message = format!(
            "`{}` of type {} cannot be in an index, a unique or a sort",
            field.name,
            check::kind_text(field)
        );
        expect(
            field,
            place.ident.span(),
            "SCALARS",
            message,
            "name a field whose values can be compared",
        );
    }
    out.extend(context_values(model));
    out.extend(relations::assertions(model));
    out.extend(gates::assertions(model));
    out.extend(summaries::assertions(model));
    // Literals are already checked. Only rustc knows the value of a const.
    let mut consts = [&model.pagination.default, &model.pagination.max]
        .into_iter()
        .flatten();
    if let Some(path) = consts.find(|limit| matches!(limit, syn::Expr::Path(_)))
        && let Some(limits) = pagination(model)
    {
        out.extend(quote_spanned!(path.span()=> const _: () = __lp::check_pagination(&#limits);));
    }
    out
}
