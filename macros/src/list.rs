//! A list of tokens in brackets, with the position of the closing bracket.
//!
//! A missing token at the end of a list is reported at the closing bracket. A token stream does not
//! contain the bracket around it: syn would report the error at the macro call, which may be in
//! another file.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};

/// The contents of brackets.
#[derive(Debug, Clone)]
pub(crate) struct List {
    tokens: TokenStream,
    end: Span,
}

impl List {
    /// Returns the list of `name(..)`.
    pub(crate) fn of(list: &syn::MetaList) -> Self {
        Self {
            tokens: list.tokens.clone(),
            end: list.delimiter.span().close(),
        }
    }

    /// Returns the rest of a list whose beginning has been read.
    pub(crate) fn with(&self, rest: TokenStream) -> Self {
        Self {
            tokens: rest,
            end: self.end,
        }
    }

    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Reads the whole list.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(ParseStream<'_>) -> syn::Result<T>,
    ) -> syn::Result<T> {
        let mut group = Group::new(Delimiter::Parenthesis, self.tokens.clone());
        group.set_span(self.end);
        let inside = |input: ParseStream<'_>| {
            let content;
            syn::parenthesized!(content in input);
            let read = read(&content)?;
            if content.is_empty() {
                Ok(read)
            } else {
                Err(content.error("unexpected token"))
            }
        };
        inside.parse2(TokenTree::Group(group).into())
    }

    /// Parses the whole list as one value.
    pub(crate) fn parse<T: Parse>(&self) -> syn::Result<T> {
        self.read(T::parse)
    }
}

/// Without brackets, the position of the last token is used instead of the closing bracket.
impl From<TokenStream> for List {
    fn from(tokens: TokenStream) -> Self {
        let end =
            tokens
                .clone()
                .into_iter()
                .last()
                .map_or_else(Span::call_site, |last| match last {
                    TokenTree::Group(group) => group.span_close(),
                    last => last.span(),
                });
        Self { tokens, end }
    }
}

impl ToTokens for List {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.tokens.to_tokens(tokens);
    }
}
