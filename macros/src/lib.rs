//! The procedural macros of Linchpin. Use them through the `linchpin` crate, which re-exports them.
//!
//! Every macro takes four steps: parse (tokens to plain structs), model (resolved), check (all rules, all errors), expand
//! (infallible). This file is the index.

use proc_macro::TokenStream;

mod diagnostics;
mod entity;
mod expr;
mod names;
mod operation;
mod options;
mod package;
mod policy;
mod route;
mod schema;
#[cfg(test)]
mod snapshot;

/// Declares a struct as an entity: a record type with CRUD, an adapter and routes.
///
/// Options of the entity stand in the attribute, options of a field in `#[field(..)]`. Put it above other derives.
#[proc_macro_attribute]
pub fn entity(args: TokenStream, item: TokenStream) -> TokenStream {
    entity::run(args.into(), item.into()).into()
}

/// Makes an enum of unit variants a field type. On the wire a variant is its name in snake_case, or
/// `#[field(rename = "..")]`. The enum must be `Copy`.
#[proc_macro_derive(FieldEnum, attributes(field))]
pub fn field_enum(item: TokenStream) -> TokenStream {
    entity::field_enum(item.into()).into()
}

/// Makes a struct an item: `Vec` of it is a field type. Its fields take the same `#[field(..)]` as an entity's.
#[proc_macro_derive(Embedded, attributes(field))]
pub fn embedded(item: TokenStream) -> TokenStream {
    entity::embedded(item.into()).into()
}

/// Declares a const as an operation of its entity.
#[proc_macro_attribute]
pub fn operation(args: TokenStream, item: TokenStream) -> TokenStream {
    operation::run(args.into(), item.into()).into()
}

/// The second step of `#[operation]`, called by the schema macro of the entity.
#[doc(hidden)]
#[proc_macro]
pub fn __operation(input: TokenStream) -> TokenStream {
    operation::expand_with_schema(input.into()).into()
}

/// Builds a package: a list of entities with their operations.
#[proc_macro]
pub fn package(input: TokenStream) -> TokenStream {
    package::run(input.into()).into()
}

/// Mounts a function as an extra route of an entity.
#[proc_macro_attribute]
pub fn route(args: TokenStream, item: TokenStream) -> TokenStream {
    route::run(args.into(), item.into()).into()
}
