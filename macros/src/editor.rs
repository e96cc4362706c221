//! Hints for editors. The expansion calls a macro of the runtime, which is empty unless
//! rust-analyzer has set `cfg(rust_analyzer)`.
//!
//! The expansion repeats some words of a declaration in a form that an editor understands. Names of
//! fields become members of the record, so that go-to-definition and rename work. Options become
//! names in a module of the runtime, so that the editor completes them.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};

use crate::diagnostics::Diagnostics;
use crate::names;
use crate::operation::args::COMMON;
use crate::operation::kinds;
use crate::options::{self, OptValue};

/// The hints of one declaration.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    offered: TokenStream,
}

impl Hints {
    /// Offers the names in `__private::editor::<module>` as completions of the first word of each
    /// option in `list`.
    pub(crate) fn offer(self, module: &str, list: TokenStream) -> Self {
        self.words(module, first_words(list))
    }

    fn words(mut self, module: &str, words: Vec<Ident>) -> Self {
        let module = format_ident!("{module}");
        if !words.is_empty() {
            self.offered.extend(quote!(#module { #(#words)* }));
        }
        self
    }

    /// Offers the kinds as completions if `kind =` is followed by a bare word, and the options of
    /// the kind.
    pub(crate) fn operation(args: &TokenStream) -> Self {
        let mut ignored = Diagnostics::new();
        let options = options::parse(args.clone(), &mut ignored);
        ignored.ignore();
        let kind = options
            .iter()
            .find(|opt| opt.name() == "kind")
            .and_then(|opt| match &opt.value {
                OptValue::Expr(kind) => Some(kind),
                _ => None,
            });
        let text = kind
            .and_then(options::as_text)
            .map(|text| names::snake(&text.value()));
        let word = kind
            .and_then(options::as_ident)
            .map(|word| quote!(kinds { #word }));
        let module = text
            .filter(|text| kinds::names().any(|kind| kind == text))
            .unwrap_or_else(|| "operation".to_owned());
        // A complete option name needs no completion. It is left out, because each hint adds code
        // to the expansion and apps have many operations.
        let options = kinds::options()
            .find(|(kind, _)| *kind == module)
            .map(|(_, options)| options)
            .unwrap_or_default();
        let known = |word: &Ident| COMMON.iter().chain(options).any(|option| word == option);
        let words = first_words(args.clone())
            .into_iter()
            .filter(|word| !known(word));
        let mut hints = Self::default().words(&module, words.collect());
        hints.offered.extend(word);
        hints
    }

    /// Returns a call of the runtime's macro; empty if there are no hints.
    pub(crate) fn call<'a>(
        self,
        krate: &TokenStream,
        entity: &dyn ToTokens,
        fields: impl IntoIterator<Item = &'a Ident>,
    ) -> Option<TokenStream> {
        let (offered, fields) = (self.offered, fields.into_iter().collect::<Vec<_>>());
        (!offered.is_empty() || !fields.is_empty())
            .then(|| quote!(#krate::__private::editor!(#entity { #(#fields)* } #offered);))
    }
}

/// Returns the first word of each option, except keywords, which cannot name an item.
fn first_words(list: TokenStream) -> Vec<Ident> {
    let mut begins = true;
    let mut words = Vec::new();
    for token in list {
        match token {
            TokenTree::Ident(word)
                if begins && syn::parse2::<Ident>(word.to_token_stream()).is_ok() =>
            {
                words.push(word);
                begins = false;
            }
            TokenTree::Punct(comma) if comma.as_char() == ',' => begins = true,
            _ => begins = false,
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_hold_the_first_word_of_each_option() {
        let hints = Hints::default()
            .offer(
                "entity",
                quote!(unique(slug), match(x), sort = desc(a), rou),
            )
            .offer("field", quote!());
        assert_eq!(
            hint_text(hints, &["slug"]),
            quote!(lp::__private::editor!(Post { slug } entity { unique sort rou });).to_string()
        );
        assert_eq!(hint_text(Hints::default(), &[]), "");
    }

    #[test]
    fn operations_offer_the_options_of_their_kind() {
        let hints = Hints::operation(&quote!(kind = "lookup", fields(slug = param(slug)), ret));
        assert_eq!(
            hint_text(hints, &[]),
            quote!(lp::__private::editor!(Post {} lookup { ret });).to_string()
        );
        let hints = Hints::operation(&quote!(
            kind = "lookup",
            fields(slug = param(slug)),
            route(auth = none)
        ));
        assert_eq!(
            hint_text(hints, &["slug"]),
            quote!(lp::__private::editor!(Post { slug });).to_string()
        );
        let hints = Hints::operation(&quote!(kind = loo));
        assert_eq!(
            hint_text(hints, &[]),
            quote!(lp::__private::editor!(Post {} kinds { loo });).to_string()
        );
    }

    fn hint_text(hints: Hints, fields: &[&str]) -> String {
        let fields: Vec<Ident> = fields
            .iter()
            .map(|field| format_ident!("{field}"))
            .collect();
        hints
            .call(&quote!(lp), &quote!(Post), &fields)
            .unwrap_or_default()
            .to_string()
    }

    /// The names in `core/src/__private/editor.rs` are the options that the macros accept, except
    /// the keywords `match` and `crate`, which cannot name an item.
    #[test]
    fn the_runtime_offers_every_option_that_the_macros_accept() {
        let text = include_str!("../../core/src/__private/editor.rs");
        let words = |text: &str| {
            let lines = text
                .lines()
                .map(str::trim)
                .filter(|line| !line.starts_with("//"));
            let mut words: Vec<String> = lines
                .flat_map(str::split_whitespace)
                .map(str::to_owned)
                .collect();
            words.sort_unstable();
            words
        };
        let between = |from: &str, to: &str| {
            words(
                text.split_once(from)
                    .and_then(|(_, rest)| rest.split_once(to))
                    .map_or("", |(inside, _)| inside),
            )
        };
        let expected = |names: Vec<&str>| {
            words(
                &names
                    .into_iter()
                    .filter(|name| !["match", "crate"].contains(name))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        assert_eq!(
            between("pub mod entity {\n    names! {", "}\n}"),
            expected(crate::entity::ENTITY_OPTIONS.to_vec())
        );
        assert_eq!(
            between("pub mod field {\n    names! {", "}\n}"),
            expected(crate::entity::FIELD_OPTIONS.to_vec())
        );
        assert_eq!(
            between("pub mod kinds {\n    names! {", "}\n}"),
            expected(kinds::names().collect())
        );
        for (kind, options) in kinds::options() {
            assert_eq!(
                between(&format!("\n    {kind} {{ kind"), "}"),
                expected(options.to_vec()),
                "{kind}"
            );
        }
    }
}
