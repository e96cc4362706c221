//! Snapshots of expansions, and error messages as texts.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use crate::snapshot;

const NOTE: &str = "
    struct Note {
        #[field(primary, default = uuid)]
        id: String,
        title: String,
        score: i64,
    }";

const REMARK: &str = "
    struct Remark {
        #[field(primary, default = uuid)]
        id: String,
        note_id: String,
        score: i64,
        hidden: bool,
    }";

/// Expands the calls of schema macros until none is left. Each call adds the declaration of one
/// entity.
pub(crate) fn connected(mut call: TokenStream) -> TokenStream {
    loop {
        let trees: Vec<TokenTree> = call.clone().into_iter().collect();
        let [
            TokenTree::Ident(entity),
            TokenTree::Punct(_),
            TokenTree::Group(group),
        ] = &trees[..]
        else {
            return call;
        };
        let (options, item) = match entity.to_string().as_str() {
            "Note" => (quote!(routes(auth = none)), NOTE),
            _ => (quote!(), REMARK),
        };
        let item: TokenStream = item.parse().unwrap_or_else(|e| panic!("not tokens: {e}"));
        let own = group.stream();
        call = crate::schema::expand(quote!(#own {#options} {#item}));
    }
}

/// Expands a channel: the emitted enum, then the implementation.
fn expand(source: &str) -> TokenStream {
    let (args, item) = snapshot::declaration(source);
    let first: Vec<TokenTree> = super::run(args, item).into_iter().collect();
    // The call of the schema macro follows the enum.
    let at = first
        .windows(2)
        .position(|two| {
            matches!(&two[0], TokenTree::Ident(_))
                && matches!(&two[1], TokenTree::Punct(mark) if mark.as_char() == '!')
        })
        .unwrap_or(first.len());
    let (emitted, call) = first.split_at(at);
    let emitted: TokenStream = emitted.iter().cloned().collect();
    let rest = connected(call.iter().cloned().collect());
    quote!(#emitted #rest)
}

#[test]
fn a_channel_matches_its_snapshot() {
    let source = include_str!("../../tests/snapshot/channel.rs");
    snapshot::assert("channel", source, &expand(source));
}

#[test]
fn a_broken_channel_matches_its_snapshot() {
    let source = include_str!("../../tests/snapshot/channel_broken.rs");
    snapshot::assert("channel_broken", source, &expand(source));
}

/// The texts of the errors in an expansion.
pub(crate) fn texts(expansion: &TokenStream) -> Vec<String> {
    let text = expansion.to_string();
    text.split("compile_error ! { \"")
        .skip(1)
        .filter_map(|rest| rest.split("\" }").next())
        .map(|text| text.replace("\\n", "\n").replace("linchpin: ", ""))
        .collect()
}

#[test]
fn several_mistakes_are_several_errors() {
    let errors = texts(&expand(
        "#[channel(of = Note, name = \"live\", presense, history(size = 20000))]
        enum NoteLive {
            #[on(Note::creatd)] A(Note),
            #[on(Remark::created, by = note)] B(Remark),
            #[publish(event = \"ack\")] C,
            #[publish(echo)] D,
            E { text: String },
            #[relay] A2(Note, Note),
        }",
    ));
    assert_eq!(
        errors,
        [
            "unknown channel option `presense`\nhelp: `presence`",
            "history.size must be a whole number within 0..=10000\nhelp: `size = 500`; with 0 a client cannot resume",
            "event name `ack` is reserved\nhelp: set another name: `event = \\\"..\\\"`",
            "`echo` belongs to `relay`\nhelp: leave it out, or `#[relay(rate = \\\"2/s\\\")]`",
            "variant `E` needs an attribute that says who sends the event\nhelp: `#[on(..)]`, `#[publish]`, `#[relay]` or `#[incoming(..)]`",
            "the payload of `A2` must be one value\nhelp: a struct with `#[derive(Embedded)]`, or named fields",
            "unknown field `note` on Remark\nhelp: `note_id`",
            "unknown event `Note::creatd`\nhelp: `created`",
        ]
    );
}
