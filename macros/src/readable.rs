//! Reads one option with syn and darling.

use darling::ast::NestedMeta;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, Lit, MacroDelimiter, Meta, MetaNameValue, Path, Token};

use crate::options::NO_NAME;

/// An option. darling parses it, because it accepts keywords as keys; forms that Linchpin's grammar
/// does not have are refused.
pub(crate) struct Readable {
    pub(crate) option: NestedMeta,
    /// The reason why its value is missing.
    pub(crate) error: Option<syn::Error>,
}

impl Readable {
    /// Returns an option with only a name. Reading continues after the next comma.
    fn unreadable(path: Path, input: ParseStream<'_>, error: syn::Error) -> syn::Result<Self> {
        skip(input)?;
        let (eq_token, value) = (
            <Token![=]>::default(),
            Expr::Verbatim(proc_macro2::TokenStream::new()),
        );
        Ok(Self {
            option: NestedMeta::Meta(Meta::NameValue(MetaNameValue {
                path,
                eq_token,
                value,
            })),
            error: Some(error),
        })
    }
}

impl From<NestedMeta> for Readable {
    fn from(option: NestedMeta) -> Self {
        Self {
            option,
            error: None,
        }
    }
}

impl Parse for Readable {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(Ident::peek_any) || input.peek(Lit) {
            return Err(input.error(NO_NAME));
        }
        let fork = input.fork();
        if let (Ok(key), Ok(equals)) = (fork.call(Ident::parse_any), fork.parse::<Token![==]>()) {
            let error =
                syn::Error::new_spanned(equals, format!("option `{key}` needs `=`, not `==`"));
            return Self::unreadable(key.into(), input, error);
        }
        let option = input.parse::<NestedMeta>()?;
        let path = match &option {
            NestedMeta::Meta(meta) => meta.path(),
            NestedMeta::NameValueInvalidExpr(pair) => &pair.path,
            NestedMeta::Lit(lit) => return Err(syn::Error::new_spanned(lit, NO_NAME)),
        };
        let Some(key) = path.get_ident().cloned() else {
            return Err(syn::Error::new_spanned(path, NO_NAME));
        };
        if let NestedMeta::NameValueInvalidExpr(pair) = &option
            && (key == "input" || key == "output")
            && syn::parse2::<syn::Type>(pair.value.clone()).is_ok()
        {
            // `output = Vec<Post>` is a type and not an expression, so its tokens are kept as for a
            // list.
            let (path, tokens) = (pair.path.clone(), pair.value.clone());
            let delimiter = MacroDelimiter::Paren(syn::token::Paren::default());
            return Ok(NestedMeta::Meta(Meta::List(syn::MetaList {
                path,
                delimiter,
                tokens,
            }))
            .into());
        }
        match &option {
            NestedMeta::NameValueInvalidExpr(pair) => {
                let error = &pair.error;
                let error = syn::Error::new(
                    error.span(),
                    format!("cannot read the value of option `{key}`: {error}"),
                );
                return Self::unreadable(key.into(), input, error);
            }
            NestedMeta::Meta(Meta::List(list))
                if !matches!(list.delimiter, MacroDelimiter::Paren(_)) =>
            {
                let error = syn::Error::new(
                    list.delimiter.span().join(),
                    format!("`{key}` takes its list in parentheses"),
                );
                return Self::unreadable(key.into(), input, error);
            }
            _ => {}
        }
        if !input.is_empty() && !input.peek(Token![,]) {
            let error = input.error(format!("expected `,` after option `{key}`"));
            return Self::unreadable(key.into(), input, error);
        }
        Ok(option.into())
    }
}

/// Skips to the next comma, or to the end.
pub(crate) fn skip(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}
