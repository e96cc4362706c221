//! The procedural macros of Linchpin. Use them through the `linchpin` crate, which re-exports them.
//!
//! Every macro has four phases: parse (tokens to plain structs), model (names and types resolved),
//! check (all rules, all errors), expand (infallible). This file lists all macros.
//!
//! The documentation of each macro is a file in `macros/docs`. The doc tests of `linchpin` compile
//! its examples. The examples of `channel` and `sse` are compiled by `linchpin-realtime`, those of
//! `webhook_events` by `linchpin-webhooks`.

use proc_macro::TokenStream;

mod channel;
mod computed;
mod diagnostics;
mod digest;
mod editor;
mod entity;
mod expr;
mod fragments;
mod gather;
mod lints;
mod list;
mod migrations;
#[cfg(test)]
mod mutation_tests;
mod names;
mod operation;
mod options;
mod package;
mod policy;
mod projection;
mod readable;
mod repair;
mod roles;
mod route;
mod schema;
#[cfg(test)]
mod snapshot;
mod sse;
mod transform;
mod webhooks;

/// Whether adapters and routes are generated. The feature `server` of `linchpin` sets it.
const SERVER: bool = cfg!(feature = "server");

#[cfg_attr(not(doctest), doc = include_str!("../docs/entity.md"))]
#[proc_macro_attribute]
pub fn entity(args: TokenStream, item: TokenStream) -> TokenStream {
    entity::run(&args.into(), &item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/computed.md"))]
#[proc_macro_attribute]
pub fn computed(args: TokenStream, item: TokenStream) -> TokenStream {
    computed::run(args.into(), item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/field_enum.md"))]
#[proc_macro_derive(FieldEnum, attributes(field))]
pub fn field_enum(item: TokenStream) -> TokenStream {
    entity::field_enum(&item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/embedded.md"))]
#[proc_macro_derive(Embedded, attributes(field))]
pub fn embedded(item: TokenStream) -> TokenStream {
    entity::embedded(&item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/roles.md"))]
#[proc_macro_derive(Roles, attributes(role))]
pub fn roles(item: TokenStream) -> TokenStream {
    roles::run(&item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/operation.md"))]
#[proc_macro_attribute]
pub fn operation(args: TokenStream, item: TokenStream) -> TokenStream {
    operation::run(args.into(), item.into()).into()
}

/// The second step of `#[operation]`, `#[projection]`, `#[channel]`, `sse!` and `webhook_events!`.
/// The schema macro of an entity calls it.
#[doc(hidden)]
#[proc_macro]
pub fn __operation(input: TokenStream) -> TokenStream {
    schema::expand(input.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/projection.md"))]
#[proc_macro_attribute]
pub fn projection(args: TokenStream, item: TokenStream) -> TokenStream {
    projection::run(args.into(), item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/package.md"))]
#[proc_macro]
pub fn package(input: TokenStream) -> TokenStream {
    package::run(input.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/migrations.md"))]
#[proc_macro]
pub fn migrations(input: TokenStream) -> TokenStream {
    migrations::run(input.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/route.md"))]
#[proc_macro_attribute]
pub fn route(args: TokenStream, item: TokenStream) -> TokenStream {
    route::run(args.into(), item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/channel.md"))]
#[proc_macro_attribute]
pub fn channel(args: TokenStream, item: TokenStream) -> TokenStream {
    channel::run(args.into(), item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/sse.md"))]
#[proc_macro]
pub fn sse(input: TokenStream) -> TokenStream {
    sse::run(input.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/webhook_events.md"))]
#[proc_macro]
pub fn webhook_events(input: TokenStream) -> TokenStream {
    webhooks::run(input.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("../docs/transform.md"))]
#[proc_macro_attribute]
pub fn transform(args: TokenStream, item: TokenStream) -> TokenStream {
    transform::run(args.into(), item.into()).into()
}
