//! The input of `sse!` as written.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Expr, ExprLit, Ident, Lit, LitBool, LitStr, Path, Token, Visibility, bracketed,
};

use crate::channel::{EventPath, History, Word, names};
use crate::diagnostics::Diagnostics;
use crate::entity::doc_of;
use crate::list::List;
use crate::options::{self, Opt};
use crate::policy::Policy;
use crate::policy::quantity::duration;
use crate::readable::Readable;

pub(super) const OPTIONS: &[&str] = &[
    "auth",
    "roles",
    "filter",
    "heartbeat",
    "history",
    "max_connections",
    "crate",
];

const SHAPE: &str = "\nhelp: `pub const NOTIFICATIONS = \"/__sse/notifications\"; Notification: \
                     [created, updated]`";

/// An endpoint as written.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    pub(super) ends: Ends,
    pub(super) ident: Ident,
    pub(super) path: LitStr,
    pub(super) sources: Vec<Source>,
    /// The path of the crate `linchpin-realtime`.
    pub(super) krate: TokenStream,
    /// `auth` and `roles`.
    pub(super) policy: Policy,
    pub(super) filter: Option<Path>,
    /// Milliseconds; 0 turns heartbeats off.
    pub(super) heartbeat: Option<u64>,
    pub(super) history: Option<History>,
    pub(super) max_connections: Option<u32>,
}

/// `Notification: [created as "a" + "b", updated]`.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) entity: Path,
    pub(super) events: Vec<Event>,
}

/// `created as "a" + "b"`.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) path: EventPath,
    /// The names after `as`. The first name replaces the event's own name. The event is sent once
    /// more under each further name.
    pub(super) names: Vec<LitStr>,
}

/// The first and the last token of the const, as written. rustc warns about an unused item only if
/// it has the spans of the app's tokens.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) first: Token![const],
    pub(super) last: Token![;],
}

/// The const with its path, and the tokens after it.
struct Head {
    attrs: Vec<Attribute>,
    vis: Visibility,
    ends: Ends,
    ident: Ident,
    path: LitStr,
    rest: TokenStream,
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let with_shape = |error: syn::Error| {
            syn::Error::new(
                error.span(),
                format!("an SSE endpoint must be a const with its path: {error}{SHAPE}"),
            )
        };
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let first = input.parse().map_err(with_shape)?;
        let ident = input.parse().map_err(with_shape)?;
        input.parse::<Token![=]>().map_err(with_shape)?;
        let path = input.parse().map_err(with_shape)?;
        let last = input.parse().map_err(with_shape)?;
        Ok(Self {
            attrs,
            vis,
            ends: Ends { first, last },
            ident,
            path,
            rest: input.parse()?,
        })
    }
}

/// A source, or an option.
enum Part {
    Source(Path, Vec<(Ident, Vec<LitStr>)>),
    Option(Box<Readable>),
}

impl Parse for Part {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let fork = input.fork();
        if fork.call(Path::parse_mod_style).is_err() || !fork.peek(Token![:]) {
            return input.parse().map(Box::new).map(Self::Option);
        }
        let entity = input.call(Path::parse_mod_style)?;
        input.parse::<Token![:]>()?;
        let list;
        bracketed!(list in input);
        let mut events = Vec::new();
        while !list.is_empty() {
            let event: Ident = list.parse()?;
            let mut names = Vec::new();
            if list.parse::<Option<Token![as]>>()?.is_some() {
                names.push(list.parse()?);
                while list.parse::<Option<Token![+]>>()?.is_some() {
                    names.push(list.parse()?);
                }
            }
            events.push((event, names));
            if !list.is_empty() {
                list.parse::<Token![,]>()?;
            }
        }
        Ok(Self::Source(entity, events))
    }
}

impl Endpoint {
    /// Reads an endpoint. `None` without the const; all problems go to `d`.
    pub(super) fn read(input: TokenStream, d: &mut Diagnostics) -> Option<Self> {
        let head = d.take(syn::parse2::<Head>(input))?;
        let mut endpoint = Self {
            attrs: head.attrs,
            vis: head.vis,
            ends: head.ends,
            ident: head.ident,
            path: head.path,
            sources: Vec::new(),
            krate: quote!(::linchpin_realtime),
            policy: Policy::default(),
            filter: None,
            heartbeat: None,
            history: None,
            max_connections: None,
        };
        let mut opts = Vec::new();
        let mut unread = false;
        let before = d.len();
        for part in options::each::<Part>(List::from(head.rest), d) {
            match part {
                Part::Source(entity, events) => endpoint.source(entity, events, d),
                Part::Option(read) => {
                    let Readable { option, error } = *read;
                    if let Some(error) = error {
                        d.syntax(&error);
                    }
                    let opt = <Opt as darling::FromMeta>::from_nested_meta(&option);
                    opts.extend(d.take(opt.map_err(syn::Error::from)));
                }
            }
        }
        unread |= d.len() > before;
        options::repeated(&opts, &[], d);
        for opt in &opts {
            endpoint.option(opt, d);
        }
        if endpoint.sources.is_empty() && !unread {
            d.error(
                &endpoint.ident,
                format!("SSE endpoint `{}` sends no event", endpoint.ident),
            )
            .help("an entity with its events: `Notification: [created, updated]`");
        }
        Some(endpoint)
    }

    /// The doc comment.
    pub(super) fn doc(&self) -> String {
        doc_of(&self.attrs)
    }

    fn source(&mut self, entity: Path, events: Vec<(Ident, Vec<LitStr>)>, d: &mut Diagnostics) {
        if events.is_empty() {
            d.error(&entity, "the list of events of the entity is empty")
                .help("`[created, updated, deleted]`, or consts of operations");
        }
        let event = |(at, names): (Ident, Vec<LitStr>)| Event {
            path: EventPath {
                entity: entity.clone(),
                word: Word::of(&at),
                at,
            },
            names: names
                .into_iter()
                .filter(|name| names::legal(name, d))
                .collect(),
        };
        let events = events.into_iter().map(event).collect();
        self.sources.push(Source { entity, events });
    }

    fn option(&mut self, opt: &Opt, d: &mut Diagnostics) {
        match opt.name().as_str() {
            "auth" | "roles" => {
                self.policy.option(opt, d);
            }
            "filter" => self.filter = opt.path("filter = is_mine", d),
            "heartbeat" => self.heartbeat = heartbeat(opt, d),
            "history" => self.history = History::read(opt, d),
            "max_connections" => self.max_connections = max_connections(opt, d),
            "crate" => {
                if let Some(path) = opt.path("crate = ::framework::realtime", d) {
                    self.krate = quote!(#path);
                }
            }
            _ => options::unknown(opt, "sse", OPTIONS, &[], d),
        }
    }
}

fn heartbeat(opt: &Opt, d: &mut Diagnostics) -> Option<u64> {
    const EXAMPLE: &str = "heartbeat = \"15s\"";
    let value = opt.expr(EXAMPLE, d)?;
    if let Expr::Lit(ExprLit {
        lit: Lit::Bool(LitBool { value: on, .. }),
        ..
    }) = value
    {
        if *on {
            d.error(value, "`heartbeat` must be a duration or `false`")
                .help(format!("`{EXAMPLE}`, or leave it out"));
            return None;
        }
        return Some(0);
    }
    let text = opt.text(EXAMPLE, d)?;
    let millis = duration(&text, "heartbeat", EXAMPLE, d)?;
    if !(5_000..=60_000).contains(&millis) {
        d.error(&text, "heartbeat must be between 5 and 60 seconds")
            .help(format!("`{EXAMPLE}`"));
        return None;
    }
    Some(millis)
}

fn max_connections(opt: &Opt, d: &mut Diagnostics) -> Option<u32> {
    let value = opt.expr("max_connections = 8", d)?;
    match options::as_int(value) {
        Some(Ok(max)) if (1..=1_000).contains(&max) => u32::try_from(max).ok(),
        _ => {
            d.error(
                value,
                "max_connections must be a whole number within 1..=1000",
            )
            .help("`max_connections = 8`");
            None
        }
    }
}
