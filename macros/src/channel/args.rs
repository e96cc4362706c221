//! The arguments of `#[channel(..)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Ident, LitStr, Path};

use super::history::History;
use crate::diagnostics::Diagnostics;
use crate::options;
use crate::policy::Policy;

pub(crate) const OPTIONS: &[&str] = &[
    "of",
    "name",
    "scope",
    "history",
    "presence",
    "auth",
    "roles",
    "rate_limit",
    "endpoint",
    "crate",
];

/// `of = Container, name = "live", ..`.
#[derive(Debug)]
pub(super) struct ChannelArgs {
    /// The path of the crate `linchpin-realtime`.
    pub(super) krate: TokenStream,
    pub(super) of: Option<Path>,
    /// The name; `None` if it is not valid.
    pub(super) name: Option<LitStr>,
    /// The word `collection` of `scope = collection`.
    pub(super) collection: Option<Ident>,
    pub(super) history: Option<History>,
    pub(super) presence: bool,
    /// `auth`, `roles` and `rate_limit`.
    pub(super) policy: Policy,
    pub(super) endpoint: Option<LitStr>,
}

impl ChannelArgs {
    pub(super) fn parse(tokens: TokenStream, d: &mut Diagnostics) -> Self {
        let options = options::parse(tokens, d);
        options::repeated(&options, &[], d);
        let mut args = Self {
            krate: quote!(::linchpin_realtime),
            of: None,
            name: None,
            collection: None,
            history: None,
            presence: false,
            policy: Policy::default(),
            endpoint: None,
        };
        for opt in &options {
            match opt.name().as_str() {
                "of" => args.of = opt.path("of = Container", d),
                "name" => args.name = opt.text("name = \"live\"", d).filter(|text| name(text, d)),
                "scope" => args.collection = scope(opt, d),
                "history" => args.history = History::read(opt, d),
                "presence" => args.presence = opt.flag(d),
                "auth" | "roles" | "rate_limit" => {
                    args.policy.option(opt, d);
                }
                "endpoint" => {
                    args.endpoint = opt
                        .text("endpoint = \"/__ws\"", d)
                        .filter(|text| endpoint(text, d));
                }
                "crate" => {
                    if let Some(path) = opt.path("crate = ::framework::realtime", d) {
                        args.krate = quote!(#path);
                    }
                }
                _ => options::unknown(opt, "channel", OPTIONS, &[], d),
            }
        }
        for (option, missing, help) in [
            (
                "of",
                "the channel needs `of`, the entity of its rooms",
                "`of = Container`",
            ),
            ("name", "the channel has no name", "`name = \"live\"`"),
        ] {
            if options::lacks(&options, option, OPTIONS) {
                // The entity's macro calls this macro, so the call site would be `#[entity]`, not
                // the channel.
                let at = args.of.as_ref().map_or_else(Span::call_site, Spanned::span);
                d.error_at(at, missing).help(help);
            }
        }
        args
    }
}

/// Checks the name of a channel.
fn name(text: &LitStr, d: &mut Diagnostics) -> bool {
    let value = text.value();
    let legal = value.starts_with(|c: char| c.is_ascii_lowercase())
        && value.len() <= 32
        && value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if !legal {
        d.error(text, format!("`{value}` is not a valid channel name"))
            .help("lower-case letters, digits, `-` and `_`, a letter first, at most 32");
    }
    legal
}

/// Reads `scope = collection`. Returns `None` for rooms of records.
fn scope(opt: &options::Opt, d: &mut Diagnostics) -> Option<Ident> {
    let word = opt.ident("scope = collection", d)?;
    match word.to_string().as_str() {
        "collection" => return Some(word),
        "record" => {}
        other => d
            .error(&word, format!("unknown scope `{other}`"))
            .suggest(other, ["record", "collection"]),
    }
    None
}

/// Checks the path of a WebSocket endpoint.
fn endpoint(text: &LitStr, d: &mut Diagnostics) -> bool {
    let path = text.value();
    let legal = path
        .strip_prefix('/')
        .is_some_and(super::names::is_static_path);
    if !legal {
        d.error(
            text,
            format!("`{path}` is not a valid path of a WebSocket endpoint"),
        )
        .help("a static path, as in `endpoint = \"/__ws\"`");
    }
    legal
}
