//! `event`: the names and the payload of a route's events.

use darling::FromMeta;
use linchpin_vocabulary::kind::KindFacts;
use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

use super::Policy;
use super::narrow::{self, Fields};
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, ROUTES};
use crate::options::{self, Opt, OptValue, Rest};

const SHORT: &str = "event = \"posts.published\"";
const LONG: &str = "event(name = \"posts.published\", payload(id, title))";

/// The events of a route.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    name: Option<LitStr>,
    payload: Option<Fields>,
    /// The additional fields of the payload.
    include: Option<Fields>,
    /// `expose = "records"`.
    records: Option<LitStr>,
}

/// The keys of the long form.
#[derive(Debug, Default, FromMeta)]
struct Keys {
    name: Option<Opt>,
    payload: Option<Opt>,
    include: Option<Opt>,
    expose: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

/// Reads the short form `event = "name"` or the long form `event(..)`.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Event> {
    let OptValue::List(list) = &opt.value else {
        return Some(Event {
            name: Some(read_name(opt, SHORT, d)?),
            payload: None,
            include: None,
            records: None,
        });
    };
    if list.is_empty() {
        d.error(&opt.key, "`event(..)` is empty")
            .help(format!("`{LONG}`"));
    }
    let keys: Keys = options::table(options::read(list.clone(), d), &[], d);
    keys.rest
        .refuse("event", &["name", "payload", "include", "expose"], &[], d);
    let name = keys
        .name
        .and_then(|opt| read_name(&opt, "name = \"posts.published\"", d));
    let payload = keys
        .payload
        .as_ref()
        .and_then(|opt| narrow::read(opt, "payload(id, title)", d));
    let include = keys
        .include
        .as_ref()
        .and_then(|opt| narrow::read(opt, "include(author_id)", d));
    if let (Some(include), None) = (&keys.include, &keys.payload) {
        d.error(
            &include.key,
            "without `payload`, an event contains every readable field",
        )
        .help("leave `include` out, or add `payload(..)`");
    }
    let records = keys.expose.and_then(|opt| {
        let text = opt.text("expose = \"records\"", d)?;
        if text.value() == "records" {
            return Some(text);
        }
        d.error(&text, format!("unknown value `{}` of expose", text.value()))
            .help("`expose = \"records\"`, or leave it out for one event");
        None
    });
    Some(Event {
        name,
        payload,
        include,
        records,
    })
}

fn read_name(opt: &Opt, example: &str, d: &mut Diagnostics) -> Option<LitStr> {
    let name = opt.text(example, d)?;
    let text = name.value();
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    if text.len() > 127 || !text.split('.').all(part) {
        d.error(&name, "the name of an event must be at most 127 bytes of lower-case letters, digits, `-` and `_`, with dots between its parts")
            .help(format!("`{example}`"));
        return None;
    }
    Some(name)
}

impl Event {
    /// Returns the declared name.
    pub(crate) fn name(&self) -> Option<&LitStr> {
        self.name.as_ref()
    }

    /// Returns a call on the descriptor. The argument is a literal, so that rustc promotes the
    /// reference to a static.
    pub(super) fn tokens(&self) -> TokenStream {
        let option = |value: Option<TokenStream>| {
            value.map_or_else(|| quote!(__lp::None), |value| quote!(__lp::Some(#value)))
        };
        let name = option(self.name.as_ref().map(|name| quote!(#name)));
        let payload = option(self.payload.as_ref().map(|fields| match &self.include {
            Some(include) => fields.with(include).tokens(),
            None => fields.tokens(),
        }));
        let records = self.records.is_some();
        quote!(.event(&__lp::EventDesc { name: #name, payload: #payload, records: #records }))
    }

    /// Checks that every field of a payload can be read.
    fn check(&self, model: &EntityModel, d: &mut Diagnostics) {
        for (fields, place) in [
            (&self.payload, "event payload"),
            (&self.include, "event payload"),
        ] {
            if let Some(fields) = fields {
                fields.check_readable(place, model, d);
            }
        }
        if let (Some(payload), Some(include)) = (&self.payload, &self.include) {
            include.refuse_repeated(payload, d);
        }
    }

    fn refuse_records(&self, what: &str, d: &mut Diagnostics) {
        if let Some(records) = &self.records {
            d.error(
                records,
                format!("{what} already emits one event for its record"),
            )
            .help("`expose` belongs to a batch");
        }
    }
}

/// Checks the option on an entity's own routes.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    if let Some(event) = &model.defaults.event {
        event.check(model, d);
    }
    for (name, policy) in ROUTES.iter().zip(&model.routes) {
        let Some(event) = &policy.event else { continue };
        event.check(model, d);
        event.refuse_records(&format!("route `{name}`"), d);
    }
}

/// Checks the option on an operation of a kind.
pub(crate) fn check_operation(
    policy: &Policy,
    kind: &KindFacts,
    model: &EntityModel,
    d: &mut Diagnostics,
) {
    if let Some(event) = &policy.event {
        event.check(model, d);
        if !kind.exposes_records {
            event.refuse_records(&format!("an operation of kind `{}`", kind.name), d);
        }
    }
}
