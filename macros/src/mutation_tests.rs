//! Expands thousands of broken declarations: a macro must never panic, and its result must parse.
//!
//! A declaration is broken at one to three random tokens: a token is removed, doubled, swapped with
//! a token of the same group, put into an invisible group, or replaced. The seed is fixed, so
//! failures can be reproduced.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;

use crate::{computed, entity, operation, package, route, schema, snapshot, transform};

/// A small random number generator with a fixed seed.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to `end - 1`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// Replacements of a token that may confuse a parser.
fn odd_tokens(random: &mut Random) -> TokenStream {
    let odd_tokens = [
        quote!(=),
        quote!(,),
        quote!(..=),
        quote!(..),
        quote!(-1),
        quote!("text"),
        quote!(""),
        quote!("\0é"),
        quote!(99999999999999999999),
        quote!(1e400),
        quote!('c'),
        quote!(true),
        quote!(self),
        quote!(crate),
        quote!(match),
        quote!(r#type),
        quote!(größe),
        quote!(_),
        quote!(__),
        quote!('a),
        quote!(::),
        quote!(&),
        quote!(()),
        quote!([]),
        quote!({}),
        quote!((,)),
        quote!(|x| x),
        quote!(now()),
        quote!(param(x.y)),
        quote!(ctx()),
        quote!(one_of([])),
        quote!(Option),
        quote!(Vec<Vec<String>>),
        quote!(<T as U>::V),
        quote!(#[field(primary)]),
        quote!(#[cfg(test)]),
        quote!(primary),
        quote!(default = now),
        quote!(version),
        quote!(if a { b } else { c }),
        quote!(a! { b }),
    ];
    odd_tokens[random.below(odd_tokens.len())].clone()
}

/// Breaks one token, at any depth.
fn with_one_mistake(tokens: TokenStream, random: &mut Random) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    if tokens.is_empty() {
        return odd_tokens(random);
    }
    let at = random.below(tokens.len());
    // Groups contain most of the tokens.
    if let TokenTree::Group(group) = &tokens[at]
        && random.below(8) > 0
    {
        tokens[at] = TokenTree::Group(Group::new(
            group.delimiter(),
            with_one_mistake(group.stream(), random),
        ));
        return tokens.into_iter().collect();
    }
    match random.below(6) {
        0 => drop(tokens.remove(at)),
        1 => tokens.insert(at, tokens[at].clone()),
        2 => {
            let other = random.below(tokens.len());
            tokens.swap(at, other);
        }
        // An invisible group, as around a token from a `macro_rules!`.
        3 => tokens[at] = TokenTree::Group(Group::new(Delimiter::None, tokens[at].clone().into())),
        _ => drop(tokens.splice(at..=at, odd_tokens(random))),
    }
    tokens.into_iter().collect()
}

/// Breaks a declaration [`ROUNDS`] times, with one to three mistakes each time, and runs the macro.
fn expand_broken(source: &str, run: impl Fn(TokenStream) -> TokenStream) {
    let tokens: TokenStream = source.parse().unwrap_or_else(|e| panic!("not tokens: {e}"));
    let mut random = Random(source.len() as u64);
    for round in 0..ROUNDS {
        let mut input = tokens.clone();
        for _ in 0..=random.below(3) {
            input = with_one_mistake(input, &mut random);
        }
        let text = input.to_string();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(input)));
        assert!(result.is_ok(), "round {round} panics on\n{text}");
    }
}

const ROUNDS: usize = 1_000;

/// Splits `#[name(args)] item` like rustc; `None` if the attribute is missing.
fn split_attribute(tokens: TokenStream) -> Option<(TokenStream, TokenStream)> {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let hash_position = tokens.windows(2).position(|pair| match pair {
        [TokenTree::Punct(hash), TokenTree::Group(group)] => {
            hash.as_char() == '#' && !group.stream().to_string().starts_with("doc")
        }
        _ => false,
    })?;
    let TokenTree::Group(group) = tokens.remove(hash_position + 1) else {
        return None;
    };
    tokens.remove(hash_position);
    let args = match group.stream().into_iter().nth(1) {
        Some(TokenTree::Group(args)) => args.stream(),
        _ => TokenStream::new(),
    };
    Some((args, tokens.into_iter().collect()))
}

/// Runs an attribute macro. Without the attribute it is not called.
fn attribute(
    run: impl Fn(TokenStream, TokenStream) -> TokenStream,
) -> impl Fn(TokenStream) -> TokenStream {
    move |tokens| match split_attribute(tokens) {
        Some((args, item)) => run(args, item),
        None => TokenStream::new(),
    }
}

#[test]
fn broken_entities_expand_to_items_without_a_panic() {
    for source in [
        include_str!("../tests/snapshot/entity_small.rs"),
        include_str!("../tests/snapshot/entity_full.rs"),
        include_str!("../tests/snapshot/entity_guarded.rs"),
        include_str!("../tests/snapshot/entity_broken.rs"),
    ] {
        expand_broken(
            source,
            attribute(|args, item| {
                // syn accepts a field with the name `_`; rustc does not, so no macro gets one.
                let sound = syn::parse2::<syn::DeriveInput>(item.clone()).is_ok()
                    && !item.to_string().contains(" _ :");
                let expansion = entity::run(&args, &item);
                assert!(
                    !sound || syn::parse2::<syn::File>(expansion.clone()).is_ok(),
                    "no items: {expansion}"
                );
                expansion
            }),
        );
    }
}

#[test]
fn broken_derive_input_expands_to_items_without_a_panic() {
    let derive = |run: fn(&TokenStream) -> TokenStream| {
        move |item: TokenStream| {
            // syn accepts a field with the name `_`; rustc does not, so no macro gets one.
            let valid = !item.to_string().contains(" _ :");
            let expansion = run(&item);
            assert!(
                !valid || syn::parse2::<syn::File>(expansion.clone()).is_ok(),
                "no items: {expansion}"
            );
            expansion
        }
    };
    expand_broken(
        include_str!("../tests/snapshot/field_enum.rs"),
        derive(entity::field_enum),
    );
    expand_broken(
        include_str!("../tests/snapshot/embedded.rs"),
        derive(entity::embedded),
    );
}

#[test]
fn broken_operations_expand_without_a_panic() {
    let (entity_args, entity) =
        snapshot::declaration(include_str!("../tests/snapshot/entity_full.rs"));
    for source in [
        include_str!("../tests/snapshot/op_transition_full.rs"),
        include_str!("../tests/snapshot/op_lookup_full.rs"),
        include_str!("../tests/snapshot/op_exists_full.rs"),
        include_str!("../tests/snapshot/op_increment.rs"),
        include_str!("../tests/snapshot/op_broken.rs"),
    ] {
        expand_broken(
            source,
            attribute(|args, item| {
                operation::run(args.clone(), item.clone());
                schema::expand(quote!({#args} {#item} {#entity_args} {#entity}))
            }),
        );
    }
}

/// Breaks the entity of an operation instead of the operation.
#[test]
fn operations_of_broken_entities_expand_without_a_panic() {
    let (args, item) =
        snapshot::declaration(include_str!("../tests/snapshot/op_transition_full.rs"));
    for source in [
        include_str!("../tests/snapshot/entity_full.rs"),
        include_str!("../tests/snapshot/entity_guarded.rs"),
    ] {
        expand_broken(
            source,
            attribute(|entity_args, entity| {
                schema::expand(quote!({#args} {#item} {#entity_args} {#entity}))
            }),
        );
    }
}

#[test]
fn broken_packages_expand_to_a_value_without_a_panic() {
    for source in [
        include_str!("../tests/snapshot/package.rs"),
        include_str!("../tests/snapshot/package_broken.rs"),
    ] {
        expand_broken(source, |tokens| {
            match tokens.into_iter().filter_map(group).last() {
                Some(input) => {
                    let value = package::run(input);
                    assert!(
                        syn::parse2::<syn::Expr>(value.clone()).is_ok(),
                        "no value: {value}"
                    );
                    value
                }
                None => TokenStream::new(),
            }
        });
    }
}

fn group(token: TokenTree) -> Option<TokenStream> {
    if let TokenTree::Group(group) = token {
        Some(group.stream())
    } else {
        None
    }
}

#[test]
fn broken_routes_expand_without_a_panic() {
    for source in [
        include_str!("../tests/snapshot/route.rs"),
        include_str!("../tests/snapshot/route_broken.rs"),
    ] {
        expand_broken(source, attribute(route::run));
    }
}

#[test]
fn broken_transforms_and_computed_functions_expand_without_a_panic() {
    for source in [
        include_str!("../tests/snapshot/transform.rs"),
        include_str!("../tests/snapshot/transform_fill.rs"),
    ] {
        expand_broken(source, attribute(transform::run));
    }
    let computed_function = include_str!("../tests/snapshot/computed.rs");
    expand_broken(computed_function, attribute(computed::run));
}
