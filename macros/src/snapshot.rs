//! Tests macro expansions against the folder `snapshots/`. Each file has a declaration and its
//! expansion.
//!
//! Accept changes with `cargo insta review`, or with
//! `INSTA_UPDATE=always cargo test -p linchpin-macros`.

use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};

use crate::entity::FIELD_SUFFIX;

/// Splits `#[name(args)] item` into the arguments of its first attribute and the item without it.
pub(crate) fn declaration(source: &str) -> (TokenStream, TokenStream) {
    let tokens: TokenStream = source.parse().unwrap_or_else(|e| panic!("not tokens: {e}"));
    let item = |input: syn::parse::ParseStream<'_>| {
        let mut attrs = input.call(syn::Attribute::parse_outer)?;
        let attribute_position = attrs
            .iter()
            .position(|a| !a.path().is_ident("doc"))
            .ok_or_else(|| input.error("no attribute"))?;
        let args = match &attrs.remove(attribute_position).meta {
            syn::Meta::List(list) => list.tokens.clone(),
            _ => TokenStream::new(),
        };
        let rest: TokenStream = input.parse()?;
        Ok((args, quote::quote!(#(#attrs)* #rest)))
    };
    syn::parse::Parser::parse2(item, tokens).unwrap_or_else(|e| panic!("not a declaration: {e}"))
}

/// Compares the declaration and its formatted expansion with the stored snapshot.
///
/// The expansion contains `compile_error!` if and only if the name ends with `_broken`.
pub(crate) fn assert(name: &str, source: &str, expansion: &TokenStream) {
    let broken = expansion.to_string().contains("compile_error");
    assert_eq!(
        broken,
        name.ends_with("_broken"),
        "errors in `{name}`: {broken}\n{expansion}"
    );
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let snapshot = format!(
        "// Declaration\n\n{}\n\n// Expansion\n\n{}",
        source.trim(),
        printed(expansion)
    );
    settings.bind(|| insta::assert_snapshot!(name, snapshot));
}

/// Formats an expansion, with documentation as `///` lines and the names of fields after their
/// numbers.
fn printed(expansion: &TokenStream) -> String {
    let file = syn::parse2::<syn::File>(docs_by_line(expansion.clone()));
    let file = file.unwrap_or_else(|e| panic!("not a file: {e}\n{expansion}"));
    numbered(&prettyplease::unparse(&file), "$1 /* $2 */")
}

/// Replaces each field number by `form`: `$1` is the number, `$2` is the name.
pub(crate) fn numbered(text: &str, form: &str) -> String {
    let numbers = regex::Regex::new(&format!(r"\b(\d+){FIELD_SUFFIX}(\w+)"))
        .unwrap_or_else(|e| panic!("{e}"));
    numbers.replace_all(text, form).into_owned()
}

/// Replaces a multi-line `#[doc]` attribute by one attribute per line. Otherwise prettyplease
/// prints a block comment.
fn docs_by_line(tokens: TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    for tree in tokens {
        match tree {
            TokenTree::Group(group) => match doc_lines(&group) {
                Some(lines) => out.extend(lines),
                None => {
                    let mut inside = Group::new(group.delimiter(), docs_by_line(group.stream()));
                    inside.set_span(group.span());
                    out.extend([TokenTree::Group(inside)]);
                }
            },
            other => out.extend([other]),
        }
    }
    out
}

/// Splits a multi-line doc attribute. The caller already wrote the first `#`.
///
/// `[doc = "a\nb"]` becomes `[doc = " a"] # [doc = " b"]`.
fn doc_lines(group: &Group) -> Option<TokenStream> {
    let trees: Vec<TokenTree> = group.stream().into_iter().collect();
    let [
        TokenTree::Ident(name),
        TokenTree::Punct(_),
        TokenTree::Literal(text),
    ] = &trees[..]
    else {
        return None;
    };
    if group.delimiter() != Delimiter::Bracket || name != "doc" {
        return None;
    }
    let text = syn::parse2::<syn::LitStr>(TokenTree::Literal(text.clone()).into())
        .ok()?
        .value();
    let line = |line: &str| {
        let space = if line.is_empty() || line.starts_with(' ') {
            ""
        } else {
            " "
        };
        let line = Literal::string(&format!("{space}{line}"));
        quote::quote!([doc = #line])
    };
    // Each line except the first needs its own `#`.
    let (first, rest) = (
        text.split('\n').take(1).map(line),
        text.split('\n').skip(1).map(line),
    );
    Some(quote::quote!(#(#first)* #(# #rest)*))
}

#[test]
fn a_package_matches_its_snapshot() {
    package("package", include_str!("../tests/snapshot/package.rs"));
}

/// A package with errors still defines its static, so that code that uses it causes no further
/// error.
#[test]
fn a_broken_package_matches_its_snapshot() {
    package(
        "package_broken",
        include_str!("../tests/snapshot/package_broken.rs"),
    );
}

fn package(name: &str, source: &str) {
    let mut item: syn::ItemStatic =
        syn::parse_str(source).unwrap_or_else(|e| panic!("not a static: {e}"));
    let syn::Expr::Macro(call) = &*item.expr else {
        panic!("no call of package!")
    };
    *item.expr = syn::Expr::Verbatim(crate::package::run(call.mac.tokens.clone()));
    assert(name, source, &quote::quote!(#item));
}

#[test]
fn a_route_matches_its_snapshot() {
    let source = include_str!("../tests/snapshot/route.rs");
    let (args, item) = declaration(source);
    assert("route", source, &crate::route::run(args, item));
}

#[test]
fn a_broken_route_matches_its_snapshot() {
    let source = include_str!("../tests/snapshot/route_broken.rs");
    let (args, item) = declaration(source);
    assert("route_broken", source, &crate::route::run(args, item));
}

#[test]
fn functions_of_migrations_match_their_snapshots() {
    for (name, source) in [
        ("transform", include_str!("../tests/snapshot/transform.rs")),
        (
            "transform_fill",
            include_str!("../tests/snapshot/transform_fill.rs"),
        ),
        (
            "transform_broken",
            include_str!("../tests/snapshot/transform_broken.rs"),
        ),
    ] {
        let (args, item) = declaration(source);
        assert(name, source, &crate::transform::run(args, item));
    }
    let source = include_str!("../tests/snapshot/computed.rs");
    let (args, item) = declaration(source);
    assert("computed", source, &crate::computed::run(args, item));
}

/// A printed expansion contains the names of fields, and documentation as `///` lines.
#[test]
fn fields_have_names_and_documentation_has_lines() {
    let due = crate::entity::field_number(7, "due_at");
    let text = printed(&quote::quote! {
        impl Note {
            #[doc = "Closes a note.\n\nOver HTTP: `POST`."]
            const DUE: usize = #due;
        }
    });
    let lines = [
        "impl Note {",
        "    /// Closes a note.",
        "    ///",
        "    /// Over HTTP: `POST`.",
        "    const DUE: usize = 7 /* due_at */;",
        "}",
        "",
    ];
    assert_eq!(text, lines.join("\n"));
}
