//! A snapshot of an expansion, and error messages as texts.

use proc_macro2::TokenStream;
use quote::quote;

use crate::channel::tests::{connected, texts};
use crate::snapshot;

fn expand(source: &str) -> TokenStream {
    let item: syn::ItemMacro =
        syn::parse_str(source).unwrap_or_else(|e| panic!("not a macro: {e}"));
    connected(super::run(item.mac.tokens))
}

#[test]
fn a_catalogue_matches_its_snapshot() {
    let source = include_str!("../../tests/snapshot/webhook_events.rs");
    let expanded = expand(source);
    // The expansion is an expression; a snapshot must be a file of items.
    let item = quote!(fn catalogue() -> Catalogue { #expanded });
    snapshot::assert("webhook_events", source, &item);
}

#[test]
fn several_mistakes_are_several_errors() {
    let errors = texts(&expand(
        "webhook_events! {
            Note: [creatd, updated when(points > 3), deleted, deleted],
            Remark: [],
            Note: [created when(title == ctx(actor.id))],
            Remark [created],
            Remark: deleted,
        }",
    ));
    assert_eq!(
        errors,
        [
            "expected `:`\nhelp: an entity with its events: `Order: [created, PAY when(total > \
             100)]`",
            "expected square brackets\nhelp: an entity with its events: `Order: [created, PAY \
             when(total > 100)]`",
            "unknown event `Note::creatd`\nhelp: `created`",
            "`deleted` is listed twice\nhelp: list the event once, and join its conditions: `when(a || b)`",
            "`Remark` is listed without events\nhelp: `[created, updated, deleted]`, or consts of \
             operations",
            "`Note` is listed twice\nhelp: write one list with all events of the entity",
            "unknown field `points` on Note\nhelp: known: `id`, `title`, `score`",
            "`when` can compare fields only with constants: `ctx(..)` is not allowed here\nhelp: a \
             literal, the path of a const, or `None`",
        ]
    );
}
