//! Thousands of broken declarations: for any tokens with our attributes, a macro returns items and
//! never panics.
//!
//! A valid declaration is broken token by token: a token is removed, doubled, swapped with its
//! neighbour, or replaced. The seed is fixed, so failures can be reproduced.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;

use crate::{computed, entity, operation, package, route, schema, snapshot, transform};

/// A small generator with a fixed seed; its quality hardly matters.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// Replacements of a token that may confuse a parser.
fn odd(random: &mut Random) -> TokenStream {
    let odd = [
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
    odd[random.below(odd.len())].clone()
}

/// Breaks one token, at any depth.
fn broken(tokens: TokenStream, random: &mut Random) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    if tokens.is_empty() {
        return odd(random);
    }
    let at = random.below(tokens.len());
    // Groups contain most of the tokens.
    if let TokenTree::Group(group) = &tokens[at]
        && random.below(8) > 0
    {
        tokens[at] = TokenTree::Group(Group::new(
            group.delimiter(),
            broken(group.stream(), random),
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
        // The form of a token that passed through a `macro_rules!`.
        3 => tokens[at] = TokenTree::Group(Group::new(Delimiter::None, tokens[at].clone().into())),
        _ => drop(tokens.splice(at..=at, odd(random))),
    }
    tokens.into_iter().collect()
}

/// Breaks a declaration many times, with a few mistakes each time.
fn answer(source: &str, run: impl Fn(TokenStream) -> TokenStream) {
    let tokens: TokenStream = source.parse().unwrap_or_else(|e| panic!("not tokens: {e}"));
    let mut random = Random(source.len() as u64);
    for round in 0..ROUNDS {
        let mut input = tokens.clone();
        for _ in 0..=random.below(3) {
            input = broken(input, &mut random);
        }
        let text = input.to_string();
        let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(input)));
        assert!(answered.is_ok(), "round {round} panics on\n{text}");
    }
}

const ROUNDS: usize = 1_000;

/// Splits `#[name(args)] item` like rustc; `None` if the attribute is missing.
fn taken_apart(tokens: TokenStream) -> Option<(TokenStream, TokenStream)> {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let ours = tokens.windows(2).position(|pair| match pair {
        [TokenTree::Punct(hash), TokenTree::Group(group)] => {
            hash.as_char() == '#' && !group.stream().to_string().starts_with("doc")
        }
        _ => false,
    })?;
    let TokenTree::Group(group) = tokens.remove(ours + 1) else {
        return None;
    };
    tokens.remove(ours);
    let args = match group.stream().into_iter().nth(1) {
        Some(TokenTree::Group(args)) => args.stream(),
        _ => TokenStream::new(),
    };
    Some((args, tokens.into_iter().collect()))
}

/// An attribute macro gets only whole items: rustc refuses what does not parse.
fn attribute(
    run: impl Fn(TokenStream, TokenStream) -> TokenStream,
) -> impl Fn(TokenStream) -> TokenStream {
    move |tokens| match taken_apart(tokens) {
        Some((args, item)) => run(args, item),
        None => TokenStream::new(),
    }
}

#[test]
fn entities() {
    for source in [
        include_str!("../tests/snapshot/entity_small.rs"),
        include_str!("../tests/snapshot/entity_full.rs"),
        include_str!("../tests/snapshot/entity_guarded.rs"),
        include_str!("../tests/snapshot/entity_broken.rs"),
    ] {
        answer(
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
fn derives() {
    let derive = |run: fn(&TokenStream) -> TokenStream| {
        move |item: TokenStream| {
            let named = !item.to_string().contains(" _ :");
            let expansion = run(&item);
            assert!(
                !named || syn::parse2::<syn::File>(expansion.clone()).is_ok(),
                "no items: {expansion}"
            );
            expansion
        }
    };
    answer(
        include_str!("../tests/snapshot/field_enum.rs"),
        derive(entity::field_enum),
    );
    answer(
        include_str!("../tests/snapshot/embedded.rs"),
        derive(entity::embedded),
    );
}

#[test]
fn operations() {
    let (entity_args, entity) =
        snapshot::declaration(include_str!("../tests/snapshot/entity_full.rs"));
    for source in [
        include_str!("../tests/snapshot/op_transition_full.rs"),
        include_str!("../tests/snapshot/op_lookup_full.rs"),
        include_str!("../tests/snapshot/op_exists_full.rs"),
        include_str!("../tests/snapshot/op_increment.rs"),
        include_str!("../tests/snapshot/op_broken.rs"),
    ] {
        answer(
            source,
            attribute(|args, item| {
                operation::run(args.clone(), item.clone());
                schema::expand(quote!({#args} {#item} {#entity_args} {#entity}))
            }),
        );
    }
}

/// Operations also get entities with errors.
#[test]
fn operations_of_broken_entities() {
    let (args, item) =
        snapshot::declaration(include_str!("../tests/snapshot/op_transition_full.rs"));
    for source in [
        include_str!("../tests/snapshot/entity_full.rs"),
        include_str!("../tests/snapshot/entity_guarded.rs"),
    ] {
        answer(
            source,
            attribute(|entity_args, entity| {
                schema::expand(quote!({#args} {#item} {#entity_args} {#entity}))
            }),
        );
    }
}

#[test]
fn packages() {
    for source in [
        include_str!("../tests/snapshot/package.rs"),
        include_str!("../tests/snapshot/package_broken.rs"),
    ] {
        answer(source, |tokens| {
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
fn routes() {
    for source in [
        include_str!("../tests/snapshot/route.rs"),
        include_str!("../tests/snapshot/route_broken.rs"),
    ] {
        answer(source, attribute(route::run));
    }
}

#[test]
fn functions_of_migrations() {
    for source in [
        include_str!("../tests/snapshot/transform.rs"),
        include_str!("../tests/snapshot/transform_fill.rs"),
    ] {
        answer(source, attribute(transform::run));
    }
    let computed_function = include_str!("../tests/snapshot/computed.rs");
    answer(computed_function, attribute(computed::run));
}
