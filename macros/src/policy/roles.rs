//! `roles`: texts, or variants of a `#[derive(Roles)]` enum.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Expr, ExprPath, LitStr, Path};

use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt};

const EXAMPLE: &str = "`roles = [\"admin\"]`";

/// The roles; the caller needs one of them.
#[derive(Debug, Clone)]
pub(super) enum Roles {
    Texts(Vec<LitStr>),
    /// The enum and the variant.
    Variants(Vec<(Path, ExprPath)>),
}

/// Reads a list of texts or variants.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Roles> {
    let Expr::Array(array) = opt.expr("roles = [\"admin\"]", d)? else {
        d.error(&opt.key, "`roles` needs a list of roles")
            .help(format!("{EXAMPLE} or `roles = [Role::Admin]`"));
        return None;
    };
    if array.elems.is_empty() {
        d.error(array, "`roles` is empty, so no caller could call the route")
            .help("`disabled`, or leave `roles` out");
        return None;
    }
    let (mut texts, mut variants): (Vec<LitStr>, Vec<(Path, ExprPath)>) = (Vec::new(), Vec::new());
    for role in &array.elems {
        match (options::as_text(role), role) {
            (Some(text), _) if !variants.is_empty() => refuse_mixed(text, d),
            (None, Expr::Path(_)) if !texts.is_empty() => refuse_mixed(role, d),
            (Some(text), _) if text.value().trim().is_empty() => {
                d.error(text, "a role has no name").help(EXAMPLE);
            }
            (Some(text), _) if texts.iter().any(|r| r.value() == text.value()) => {
                d.error(text, format!("role `{}` repeated", text.value()))
                    .help("keep one of them");
            }
            (Some(text), _) => texts.push(text.clone()),
            (None, Expr::Path(path)) => {
                let Some(enum_path) = enum_of(&path.path).filter(|_| path.qself.is_none()) else {
                    let name = path.to_token_stream();
                    d.error(path, format!("`{name}` needs the name of its enum"))
                        .help(format!(
                            "`Role::{name}` of an enum with `#[derive(Roles)]`, or a text"
                        ));
                    continue;
                };
                let same = |(_, other): &(Path, ExprPath)| {
                    other.to_token_stream().to_string() == path.to_token_stream().to_string()
                };
                if variants.iter().any(same) {
                    d.error(path, "role repeated").help("keep one of them");
                } else {
                    variants.push((enum_path, path.clone()));
                }
            }
            _ => d
                .error(
                    role,
                    "a role must be a text, or a variant of a `#[derive(Roles)]` enum",
                )
                .help(EXAMPLE),
        }
    }
    Some(if variants.is_empty() {
        Roles::Texts(texts)
    } else {
        Roles::Variants(variants)
    })
}

fn refuse_mixed(role: impl ToTokens, d: &mut Diagnostics) {
    d.error(
        &role,
        "`roles` mixes texts and variants: a misspelt text would go unnoticed",
    )
    .help("use only variants of one enum, or only texts");
}

/// Returns `Role` of `Role::Admin`.
fn enum_of(path: &Path) -> Option<Path> {
    let mut enum_path = path.clone();
    enum_path.segments.pop()?;
    enum_path.segments.pop_punct();
    (!enum_path.segments.is_empty()).then_some(enum_path)
}

impl Roles {
    /// Returns a call on the descriptor.
    pub(super) fn tokens(&self) -> TokenStream {
        match self {
            Self::Texts(texts) => quote!(.roles(&[#(#texts),*])),
            Self::Variants(variants) => {
                let names = variants
                    .iter()
                    .map(|(set, variant)| quote!(<#set as __lp::Roles>::NAMES[#variant as usize]));
                quote!(.roles(const { &[#(#names),*] }))
            }
        }
    }
}
