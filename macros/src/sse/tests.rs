//! Snapshots of expansions, and error messages as texts.

use proc_macro2::TokenStream;

use crate::channel::tests::{connected, texts};
use crate::snapshot;

fn expand(source: &str) -> TokenStream {
    let item: syn::ItemMacro =
        syn::parse_str(source).unwrap_or_else(|e| panic!("not a macro: {e}"));
    connected(super::run(item.mac.tokens))
}

#[test]
fn an_endpoint_matches_its_snapshot() {
    let source = include_str!("../../tests/snapshot/sse.rs");
    snapshot::assert("sse", source, &expand(source));
}

#[test]
fn several_mistakes_are_several_errors() {
    let errors = texts(&expand(
        "sse! {
            pub const NOTES = \"/events/notes\";
            Note: [created as \"error\", updatd],
            heartbeat = \"2s\",
            histroy(size = 5),
        }",
    ));
    assert_eq!(
        errors,
        [
            "event name `error` is reserved\nhelp: set another name: `event = \\\"..\\\"`",
            "heartbeat must be between 5 and 60 seconds\nhelp: `heartbeat = \\\"15s\\\"`",
            "unknown sse option `histroy`\nhelp: `history`",
            "SSE path must start with `/__sse/`\nhelp: `\\\"/__sse/notes\\\"`",
            "unknown event `Note::updatd`\nhelp: `updated`",
        ]
    );
}
