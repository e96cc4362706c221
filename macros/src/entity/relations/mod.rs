//! Relations to other entities: `belongs_to` and `has_many`, from their syntax to the descriptor.

mod check;
mod tokens;

use darling::FromMeta;
use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitStr, Path, Token};

use super::field::Field;
use crate::diagnostics::Diagnostics;
use crate::list::List;
use crate::options::{self, Opt, Rest};

pub(crate) use check::check;
pub(crate) use tokens::{assertions, consts, descriptor};

/// A relation as written.
#[derive(Debug)]
pub(crate) struct RelationArgs {
    side: Side,
    name: Ident,
    target: Path,
    key: Option<Ident>,
    on_delete: Option<LitStr>,
    max: Option<Expr>,
}

/// The entity that has the key field: this one (`BelongsTo`) or the other one (`HasMany`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    BelongsTo,
    HasMany,
}

impl Side {
    fn example(self) -> &'static str {
        match self {
            Self::BelongsTo => "belongs_to(author: User, key = author_id)",
            Self::HasMany => "has_many(comments: Comment, key = post_id)",
        }
    }
}

/// A relation, resolved against the fields of the entity.
#[derive(Debug)]
pub(crate) struct Relation {
    side: Side,
    pub(crate) name: Ident,
    target: Path,
    /// The key as written.
    key: Ident,
    /// The position of the key, if it is a field of this entity.
    field: Option<usize>,
    on_delete: Option<(LitStr, OnDelete)>,
    max: Option<Expr>,
}

/// The effect on a record when the record that it belongs to is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDelete {
    None,
    Restrict,
    SetNull,
    Cascade,
}

/// The values of `on_delete`.
const ON_DELETE: [&str; 4] = ["none", "restrict", "set_null", "cascade"];

/// The arguments of a relation: `author: User` and its options.
struct Head {
    name: Ident,
    target: Path,
    rest: TokenStream,
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![:]>()?;
        let target = input.call(Path::parse_mod_style)?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        Ok(Self {
            name,
            target,
            rest: input.parse()?,
        })
    }
}

/// The keys of `belongs_to(..)`.
#[derive(Debug, Default, FromMeta)]
struct BelongsToKeys {
    key: Option<Opt>,
    on_delete: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

/// The keys of `has_many(..)`.
#[derive(Debug, Default, FromMeta)]
struct HasManyKeys {
    key: Option<Opt>,
    max: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

impl RelationArgs {
    /// `belongs_to(author: User, key = author_id, on_delete = "set_null")`.
    pub(crate) fn belongs_to(opt: &Opt, d: &mut Diagnostics) -> Option<Self> {
        let side = Side::BelongsTo;
        let (Head { name, target, .. }, rest) = head(opt, side, d)?;
        let keys: BelongsToKeys = options::table(options::read(rest, d), &[], d);
        keys.rest
            .refuse("belongs_to", &["key", "on_delete"], &[], d);
        let key = key(opt, keys.key, side, &keys.rest, d);
        let on_delete = keys
            .on_delete
            .and_then(|opt| opt.text("on_delete = \"set_null\"", d));
        Some(Self {
            side,
            name,
            target,
            key,
            on_delete,
            max: None,
        })
    }

    /// `has_many(comments: Comment, key = post_id, max = 20)`.
    pub(crate) fn has_many(opt: &Opt, d: &mut Diagnostics) -> Option<Self> {
        let side = Side::HasMany;
        let (Head { name, target, .. }, rest) = head(opt, side, d)?;
        let keys: HasManyKeys = options::table(options::read(rest, d), &[], d);
        keys.rest.refuse("has_many", &["key", "max"], &[], d);
        let key = key(opt, keys.key, side, &keys.rest, d);
        let max = keys.max.and_then(|opt| opt.expr("max = 20", d).cloned());
        Some(Self {
            side,
            name,
            target,
            key,
            on_delete: None,
            max,
        })
    }
}

/// Reads `author: User`. Returns it with the list of the options after it.
fn head(opt: &Opt, side: Side, d: &mut Diagnostics) -> Option<(Head, List)> {
    let list = opt.list(side.example(), d)?;
    match list.parse::<Head>() {
        Ok(head) => {
            let rest = list.with(head.rest.clone());
            Some((head, rest))
        }
        Err(error) => {
            let message = format!(
                "`{}` must begin with a name and an entity: {error}",
                opt.key
            );
            d.error_at(error.span(), message)
                .help(format!("`{}`", side.example()));
            None
        }
    }
}

fn key(opt: &Opt, key: Option<Opt>, side: Side, rest: &Rest, d: &mut Diagnostics) -> Option<Ident> {
    let Some(key) = key else {
        // A misspelt key has been reported.
        if !rest
            .0
            .iter()
            .any(|opt| crate::diagnostics::nearest(&opt.name(), ["key"]).is_some())
        {
            d.error(&opt.key, format!("`{}` needs `key`", opt.key))
                .help(format!("`{}`", side.example()));
        }
        return None;
    };
    key.ident("key = author_id", d)
}

impl Relation {
    /// Resolves the options. An option with an error is reported and left out.
    pub(crate) fn resolve(
        args: RelationArgs,
        fields: &[Field],
        d: &mut Diagnostics,
    ) -> Option<Self> {
        let RelationArgs {
            side,
            name,
            target,
            key,
            on_delete,
            max,
        } = args;
        let key = key?;
        let field = match side {
            Side::HasMany => None,
            Side::BelongsTo => {
                let text = key.unraw().to_string();
                let found = fields.iter().position(|f| f.name == text);
                if found.is_none() {
                    d.error(&key, format!("unknown field `{text}` in belongs_to"))
                        .suggest(&text, fields.iter().map(|f| f.name.as_str()));
                    return None;
                }
                found
            }
        };
        let on_delete = on_delete.and_then(|text| {
            let value = text.value();
            let found = match value.as_str() {
                "none" => OnDelete::None,
                "restrict" => OnDelete::Restrict,
                "set_null" | "setNull" => OnDelete::SetNull,
                "cascade" => OnDelete::Cascade,
                _ => {
                    d.error(&text, format!("unknown on_delete `{value}`"))
                        .suggest(&value, ON_DELETE);
                    return None;
                }
            };
            Some((text, found))
        });
        Some(Self {
            side,
            name,
            target,
            key,
            field,
            on_delete,
            max,
        })
    }

    /// Whether a field is a key that can only hold the id of a visible record.
    pub(crate) fn restricts_to_visible(&self, field: usize) -> bool {
        self.field == Some(field)
            && self
                .on_delete
                .as_ref()
                .is_some_and(|(_, rule)| *rule != OnDelete::None)
    }

    /// Returns the key field of this entity, as written.
    pub(crate) fn key(&self) -> Option<&Ident> {
        self.field.map(|_| &self.key)
    }

    /// Returns the field of this entity that holds the key of another entity's record.
    pub(crate) fn own_key(&self) -> Option<usize> {
        self.field
    }
}
