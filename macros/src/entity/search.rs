//! `search(provider = "name", fields(title = 2, body = 1), fallback)`: from its syntax to the
//! descriptor.

use darling::FromMeta;
use proc_macro2::{Literal, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Expr, Ident, LitStr};

use super::check::kind_text;
use super::field::{Field, Flag};
use super::model::EntityModel;
use super::rules::as_float;
use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt, OptValue, Rest};

const EXAMPLE: &str = "search(provider = \"tantivy\", fields(title = 2, body = 1))";

/// The search provider that searches the entity instead of its store.
#[derive(Debug)]
pub(crate) struct Search {
    provider: LitStr,
    fields: Vec<Weighted>,
    fallback: bool,
}

/// A field of the index.
#[derive(Debug)]
struct Weighted {
    /// The position in [`EntityModel::fields`].
    field: usize,
    /// The field as written.
    at: Ident,
    weight: f32,
}

/// The keys of `search(..)`.
#[derive(Debug, Default, FromMeta)]
struct Keys {
    provider: Option<Opt>,
    fields: Option<Opt>,
    fallback: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

impl Search {
    /// The fields of the index, as written.
    pub(crate) fn named_fields(&self) -> impl Iterator<Item = &Ident> {
        self.fields.iter().map(|weighted| &weighted.at)
    }

    /// Reads the option. `None` after an error, which is already reported.
    pub(crate) fn resolve(opt: &Opt, fields: &[Field], d: &mut Diagnostics) -> Option<Self> {
        let keys: Keys = options::table(options::read(opt.list(EXAMPLE, d)?, d), &[], d);
        let misspelt = !keys.rest.0.is_empty();
        keys.rest
            .refuse("search", &["provider", "fields", "fallback"], &[], d);
        for (name, present) in [
            ("provider", keys.provider.is_some()),
            ("fields", keys.fields.is_some()),
        ] {
            if !present && !misspelt {
                d.error(&opt.key, format!("search needs `{name}`"))
                    .help(format!("`{EXAMPLE}`"));
            }
        }
        let provider = keys
            .provider
            .and_then(|opt| opt.text("provider = \"tantivy\"", d));
        if let Some(empty) = provider
            .as_ref()
            .filter(|text| text.value().trim().is_empty())
        {
            d.error(empty, "`provider` is empty")
                .help("`provider = \"tantivy\"`");
        }
        let fallback = keys
            .fallback
            .and_then(|opt| opt.boolean(d))
            .unwrap_or(false);
        let fields = keys.fields.map(|opt| weighted(&opt, fields, d));
        Some(Self {
            provider: provider?,
            fields: fields?,
            fallback,
        })
    }

    /// Whether the index contains a field.
    pub(crate) fn contains(&self, field: usize) -> bool {
        self.fields.iter().any(|weighted| weighted.field == field)
    }
}

fn weighted(opt: &Opt, fields: &[Field], d: &mut Diagnostics) -> Vec<Weighted> {
    const EXAMPLE: &str = "fields(title = 2, body = 1)";
    let Some(list) = opt.list(EXAMPLE, d) else {
        return Vec::new();
    };
    if list.is_empty() {
        d.error(&opt.key, "`fields` is empty")
            .help(format!("`{EXAMPLE}`"));
    }
    let mut found: Vec<Weighted> = Vec::new();
    for Opt { key: at, value } in options::parse(list, d) {
        let name = at.unraw().to_string();
        let Some(field) = fields.iter().position(|field| field.name == name) else {
            d.error(&at, format!("unknown field `{name}` in search"))
                .suggest(&name, fields.iter().map(|field| field.name.as_str()));
            continue;
        };
        if found.iter().any(|other| other.field == field) {
            d.error(&at, format!("field `{name}` repeated in search"))
                .help("name each field once");
            continue;
        }
        let weight = match &value {
            OptValue::Expr(expr) => weight(expr).or_else(|| {
                d.error(
                    expr,
                    format!("the weight of `{name}` must be a number greater than 0"),
                )
                .help(format!("`{name} = 1`"));
                None
            }),
            OptValue::Unreadable => None,
            OptValue::Flag | OptValue::List(_) => {
                d.error(&at, format!("`{name}` needs a weight"))
                    .help(format!("`{name} = 1`"));
                None
            }
        };
        found.push(Weighted {
            field,
            at,
            weight: weight.unwrap_or(1.0),
        });
    }
    found
}

/// Reads the weight of a match: a finite number greater than 0.
fn weight(expr: &Expr) -> Option<f32> {
    let number = match options::as_int(expr) {
        Some(whole) => whole.ok()? as f64,
        None => as_float(expr)?,
    };
    let weight = number as f32;
    (weight > 0.0 && weight.is_finite()).then_some(weight)
}

/// Checks that the fields of the index are texts that clients may read.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    for Weighted { field, at, .. } in model.search.iter().flat_map(|search| &search.fields) {
        let of = &model.fields[*field];
        if !of.kind.may_be_text() {
            d.error(
                at,
                format!(
                    "search needs string fields, `{}` is {}",
                    of.name,
                    kind_text(of)
                ),
            )
            .help("leave it out");
        } else if of.has(Flag::Private) || of.has(Flag::WriteOnly) {
            d.error(
                at,
                format!(
                    "`{}` is hidden: hits would reveal what clients may not read",
                    of.name
                ),
            )
            .help("leave it out");
        }
    }
}

/// `search: ..`.
pub(crate) fn descriptor(model: &EntityModel) -> Option<TokenStream> {
    let Search {
        provider,
        fields,
        fallback,
    } = model.search.as_ref()?;
    let fields = fields.iter().map(|Weighted { field, weight, .. }| {
        let (field, weight) = (model.number(*field), Literal::f32_unsuffixed(*weight));
        quote!((#field, #weight))
    });
    Some(
        quote!(search: __lp::Some(__lp::SearchDesc { provider: #provider, fields: &[#(#fields),*], fallback: #fallback }),),
    )
}

/// Returns the checks that need types: for each the field, the span and the message.
pub(crate) fn assertions(model: &EntityModel) -> impl Iterator<Item = (usize, Span, String)> {
    let fields = model.search.iter().flat_map(|search| &search.fields);
    fields.map(|Weighted { field, at, .. }| {
        let of = &model.fields[*field];
        (
            *field,
            at.span(),
            format!(
                "search needs string fields, `{}` is {}",
                of.name,
                kind_text(of)
            ),
        )
    })
}
