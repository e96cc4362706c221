//! `idempotent`: calls that can be repeated with the same key.

use darling::FromMeta;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::Ident;

use super::Policy;
use super::quantity::duration;
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, ROUTES};
use crate::options::{self, Opt, OptValue, Rest};

const LONG: &str = "idempotent(ttl = \"24h\", required)";
/// A day, in milliseconds.
const DEFAULT_TTL: u64 = 86_400_000;

/// How long responses are stored, and whether a key is required.
#[derive(Debug, Clone)]
pub(crate) struct Idempotent {
    key: Ident,
    /// The time in milliseconds.
    ttl: u64,
    required: bool,
}

/// The keys of the long form.
#[derive(Debug, Default, FromMeta)]
struct Keys {
    ttl: Option<Opt>,
    required: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

/// Reads the short form `idempotent` or the long form `idempotent(..)`.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Idempotent> {
    let key = opt.key.clone();
    let OptValue::List(list) = &opt.value else {
        opt.flag(d);
        return Some(Idempotent {
            key,
            ttl: DEFAULT_TTL,
            required: false,
        });
    };
    let keys: Keys = options::table(options::read(list.clone(), d), &[], d);
    keys.rest.refuse("idempotent", &["ttl", "required"], &[], d);
    if opt.is_empty_list() {
        d.error(&opt.key, "`idempotent()` is empty")
            .help(format!("`idempotent`, or `{LONG}`"));
    }
    let ttl = match keys.ttl {
        Some(opt) => duration(&opt.text("ttl = \"24h\"", d)?, "idempotent.ttl", LONG, d)?,
        None => DEFAULT_TTL,
    };
    let required = keys.required.is_some_and(|opt| opt.flag(d));
    Some(Idempotent { key, ttl, required })
}

impl Idempotent {
    /// Returns a call on the descriptor.
    pub(super) fn tokens(&self) -> TokenStream {
        let ttl = Literal::u64_unsuffixed(self.ttl);
        let required = self.required.then(|| quote!(.required()));
        quote!(.idempotent(__lp::Idempotency::new(#ttl) #required))
    }
}

/// Refuses the option on an entity's routes that change no records. They inherit `defaults` without
/// an error.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    for (name, policy) in ROUTES
        .iter()
        .zip(&model.routes)
        .filter(|(name, _)| matches!(**name, "get" | "list"))
    {
        refuse(policy, &format!("route `{name}`"), d);
    }
}

/// Refuses the option on routes that change no records.
pub(crate) fn refuse(policy: &Policy, what: &str, d: &mut Diagnostics) {
    if let Some(idempotent) = &policy.idempotent {
        d.error(
            &idempotent.key,
            format!("`idempotent` has no effect on {what}: it changes no record"),
        )
        .help("leave `idempotent` out");
    }
}
