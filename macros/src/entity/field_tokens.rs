//! The descriptor of a field as tokens: default, flags and rules. `__lp` is in scope.

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::Expr;

use super::check_field::texts;
use super::date;
use super::field::{Default, Field, Flag, Kind};
use super::rules::{Bound, Bounds, Choice, RuleArgs, as_float};
use crate::options;

/// Returns the method calls after `__lp::field::<..>(..)`: one for each property that differs from
/// the default.
///
/// `literal` is the path of the function that checks the type of a literal default.
pub(crate) fn options(field: &Field, flags: &[TokenStream], literal: &TokenStream) -> TokenStream {
    let doc = (!field.doc.is_empty()).then(|| {
        let doc = &field.doc;
        quote!(.doc(#doc))
    });
    let flags = (!flags.is_empty()).then(|| quote!(.flags(&[#(__lp::Flags::#flags),*])));
    let default = default(field, literal);
    let rules = rules(field).map(|rules| quote!(.rules(&#rules)));
    let earlier = &field.options.rename_from;
    let rename = (!earlier.is_empty()).then(|| quote!(.rename_from(&[#(#earlier),*])));
    quote!(#doc #flags #default #rules #rename)
}

/// Returns the declared flags, and the flags that they imply.
pub(crate) fn flags(field: &Field) -> Vec<TokenStream> {
    let sensitive = field.has(Flag::Sensitive) || !field.readable();
    let all = [
        (field.has(Flag::Primary), quote!(PRIMARY)),
        (
            field.has(Flag::Immutable) || matches!(field.options.default, Default::Ctx(..)),
            quote!(IMMUTABLE),
        ),
        (
            field.has(Flag::ReadOnly) || field.server_only_reason.is_some(),
            quote!(READ_ONLY),
        ),
        (field.has(Flag::WriteOnly), quote!(WRITE_ONLY)),
        (field.has(Flag::Private), quote!(PRIVATE)),
        (sensitive, quote!(SENSITIVE)),
        (field.has(Flag::ClientSet), quote!(CLIENT_SET)),
        (field.options.on_update.is_some(), quote!(ON_UPDATE)),
        (field.has(Flag::Required), quote!(REQUIRED)),
    ];
    all.into_iter()
        .filter_map(|(set, flag)| set.then_some(flag))
        .collect()
}

fn default(field: &Field, literal: &TokenStream) -> Option<TokenStream> {
    Some(match &field.options.default {
        Default::None | Default::Poisoned => return None,
        Default::Uuid(_) => quote!(.default(__lp::DefaultDesc::Uuid)),
        Default::Cuid(_) => quote!(.default(__lp::DefaultDesc::Cuid)),
        Default::Now(_) => quote!(.default(__lp::DefaultDesc::Now)),
        Default::Ctx(path, _) => quote!(.default(__lp::DefaultDesc::Ctx(__lp::CtxPath::#path))),
        Default::Value(value) => {
            let value = value_tokens(field.kind, value, literal);
            quote!(.literal(|| #value))
        }
    })
}

/// Returns a literal as a value. If its tokens show the type, the expansion contains the value.
/// Otherwise it contains a call of the function `literal`, whose argument rustc checks.
fn value_tokens(kind: Kind, value: &Expr, literal: &TokenStream) -> TokenStream {
    if let Some(text) = options::as_text(value) {
        if kind == Kind::Date
            && let Some(millis) = date::parse(&text.value())
        {
            let millis = Literal::i64_unsuffixed(millis);
            return quote!(__lp::date(#millis));
        }
        return quote!(__lp::text(#text));
    }
    if kind == Kind::Number
        && let Some(number) = options::as_int(value)
            .and_then(Result::ok)
            .map(|n| n as f64)
            .or_else(|| as_float(value))
    {
        // Adding zero turns -0 into 0, so that there is only one zero.
        let number = Literal::f64_unsuffixed(number + 0.0);
        return quote!(__lp::Value::Float(#number));
    }
    if kind == Kind::StringArray
        && let Some(texts) = texts(value)
    {
        return quote!(__lp::texts(&[#(#texts),*]));
    }
    if kind == Kind::Items && matches!(value, Expr::Array(_)) {
        return quote!(__lp::no_items());
    }
    // A const of a text field is a `&str`.
    if kind == Kind::String {
        quote!(__lp::text(#value))
    } else {
        quote!(#literal(#value))
    }
}

fn rules(field: &Field) -> Option<TokenStream> {
    let rules = &field.options.rules;
    let uuid = field.kind == Kind::Uuid && rules.format.is_none();
    if rules.is_empty() && !uuid {
        return None;
    }
    Some(rule_tokens(rules, uuid))
}

fn rule_tokens(rules: &RuleArgs, uuid: bool) -> TokenStream {
    let length = rules
        .length
        .as_ref()
        .map(|rule| counts("length", &rule.value));
    let range = rules.range.as_ref().map(|rule| range(&rule.value));
    let items = rules
        .items
        .as_ref()
        .map(|rule| counts("items", &rule.value));
    let pattern = rules
        .pattern
        .as_ref()
        .map(|rule| text("pattern", &rule.value));
    let format = match &rules.format {
        Some(rule) => Some(text("format", &rule.value)),
        None => uuid.then(|| quote!(.format("uuid"))),
    };
    let unique_items = rules.unique_items.as_ref().map(|_| quote!(.unique_items()));
    let each = rules.each.as_ref().map(|rule| {
        let each = rule_tokens(&rule.value, false);
        quote!(.each(&#each))
    });
    let one_of = rules.one_of.as_ref().map(|rule| {
        let texts: Vec<_> = rule
            .value
            .iter()
            .filter_map(|c| {
                if let Choice::Text(text) = c {
                    Some(text)
                } else {
                    None
                }
            })
            .collect();
        let ints = rule.value.iter().filter_map(|c| {
            if let Choice::Int(n, _) = c {
                Some(Literal::i64_unsuffixed(*n))
            } else {
                None
            }
        });
        if texts.is_empty() {
            quote!(.one_of_int(&[#(#ints),*]))
        } else {
            quote!(.one_of(&[#(#texts),*]))
        }
    });
    quote!(__lp::Rules::NONE #length #range #pattern #format #items #unique_items #each #one_of)
}

fn text(method: &str, value: &syn::LitStr) -> TokenStream {
    let method = quote::format_ident!("{method}");
    quote!(.#method(#value))
}

fn counts(method: &str, bounds: &Bounds<u32>) -> TokenStream {
    let side = |bound: Option<u32>| {
        let n = bound.map(Literal::u32_unsuffixed);
        n.map_or_else(|| quote!(__lp::None), |n| quote!(__lp::Some(#n)))
    };
    let (method, min, max) = (
        quote::format_ident!("{method}"),
        side(bounds.min),
        side(bounds.max),
    );
    quote!(.#method(#min, #max))
}

fn range(bounds: &Bounds<Bound>) -> TokenStream {
    let side = |bound: Option<Bound>| match bound {
        Some(Bound::Int(n) | Bound::Date(n)) => {
            let n = Literal::i64_unsuffixed(n);
            quote!(__lp::Some(__lp::Bound::Int(#n)))
        }
        Some(Bound::Float(n)) => {
            let n = Literal::f64_unsuffixed(n);
            quote!(__lp::Some(__lp::Bound::Float(#n)))
        }
        None => quote!(__lp::None),
    };
    let (min, max) = (side(bounds.min), side(bounds.max));
    quote!(.range(#min, #max))
}
