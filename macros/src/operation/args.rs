//! The arguments of `#[operation(..)]` as written.

use proc_macro2::TokenStream;
use syn::{Expr, Ident, LitStr};

use super::kinds;
use super::path::RouteArgs;
use crate::diagnostics::{Diagnostics, nearest};
use crate::expr::{self, Name, Pair};
use crate::names;
use crate::options::{self, Opt, OptValue};

/// The options of every kind.
pub(crate) const COMMON: &[&str] = &["kind", "route", "unscoped"];

/// The arguments in the parentheses.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) kind: Option<LitStr>,
    /// Whether `kind` is present, even if it cannot be read.
    pub(crate) has_kind: bool,
    pub(crate) route: RouteArgs,
    /// The word `route`, if it is present.
    route_key: Option<Ident>,
    /// `unscoped = "reason"`: the reason why the scopes of the entity do not apply.
    pub(crate) unscoped: Option<(Ident, LitStr)>,
    /// The options of the kind.
    options: Vec<Opt>,
}

/// Reads `kind = "transition"`. A bare name is reported and then read as if it had quotes.
fn kind(opt: &Opt, d: &mut Diagnostics) -> Option<LitStr> {
    let OptValue::Expr(value) = &opt.value else {
        return opt.text("kind = \"transition\"", d);
    };
    let Some(name) = options::as_ident(value) else {
        return opt.text("kind = \"transition\"", d);
    };
    d.error(name, "`kind` needs a text")
        .help(format!("`kind = \"{name}\"`"));
    Some(LitStr::new(&name.to_string(), name.span()))
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, d: &mut Diagnostics) -> Self {
        let mut options = options::parse(tokens, d);
        if !options.iter().any(|opt| opt.name() == "kind")
            && let Some(opt) = options
                .iter_mut()
                .find(|opt| nearest(&opt.name(), ["kind"]).is_some())
        {
            options::unknown(opt, "operation", &["kind"], &[], d);
            opt.key = Ident::new("kind", opt.key.span());
        }
        let written = options.iter().find(|opt| opt.name() == "kind");
        let (has_kind, kind) = (written.is_some(), written.and_then(|opt| kind(opt, d)));
        let known_kind = kind
            .as_ref()
            .and_then(|kind| kinds::named(&names::snake(&kind.value())));
        options::repeated(&options, known_kind.map_or(&[], |kind| kind.repeated), d);
        let route_key = options
            .iter()
            .find(|opt| opt.name() == "route")
            .map(|opt| opt.key.clone());
        let route = match options.iter().find(|opt| opt.name() == "route") {
            Some(opt) => opt
                .list("route(auth = none)", d)
                .map(|list| RouteArgs::parse(list, d))
                .unwrap_or_default(),
            None => RouteArgs::default(),
        };
        let unscoped = options
            .iter()
            .find(|opt| opt.name() == "unscoped")
            .and_then(|opt| {
                crate::entity::unscoped_reason(opt, d).map(|text| (opt.key.clone(), text))
            });
        options.retain(|opt| !COMMON.contains(&opt.name().as_str()));
        Self {
            kind,
            has_kind,
            route,
            route_key,
            unscoped,
            options,
        }
    }

    /// Reports `route(..)` on an operation without a route. In this `route(..)`, only the option
    /// `event` is allowed.
    pub(crate) fn refuse_route(&self, why: &str, d: &mut Diagnostics) {
        if let Some(key) = self
            .route_key
            .as_ref()
            .filter(|_| !self.route.names_events_only())
        {
            d.error(key, why)
                .help("remove `route(..)`; only `route(event = \"..\")` is allowed");
        }
    }

    /// Returns the option with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Opt> {
        self.options.iter().find(|opt| opt.name() == name)
    }

    /// Returns all options with this name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &Opt> {
        self.options.iter().filter(move |opt| opt.name() == name)
    }

    /// Reports options that the kind does not have, and missing required options.
    pub(crate) fn check(
        &self,
        kind: &str,
        known: &[&str],
        required: &[&str],
        planned: &[&str],
        at: &LitStr,
        d: &mut Diagnostics,
    ) {
        let all: Vec<&str> = known.iter().chain(COMMON).copied().collect();
        for opt in self
            .options
            .iter()
            .filter(|opt| !known.contains(&opt.name().as_str()))
        {
            options::unknown(opt, kind, &all, planned, d);
        }
        for missing in required {
            self.require(kind, missing, known, at, d);
        }
    }

    /// Reports that a required option is missing, unless the declaration has an unknown option with
    /// a similar name.
    pub(crate) fn require(
        &self,
        kind: &str,
        missing: &str,
        known: &[&str],
        at: &LitStr,
        d: &mut Diagnostics,
    ) {
        let is_misspelt = |opt: &Opt| {
            !known.contains(&opt.name().as_str()) && nearest(&opt.name(), [missing]).is_some()
        };
        if self.get(missing).is_none() && !self.options.iter().any(is_misspelt) {
            d.error(at, format!("{kind} needs `{missing}`"));
        }
    }

    /// Reads `name(field = source, ..)`; empty if the option is absent.
    pub(crate) fn pairs(&self, name: &str, d: &mut Diagnostics) -> Vec<Pair> {
        let Some(opt) = self.get(name) else {
            return Vec::new();
        };
        let example = format!("{name}(slug = param(slug))");
        let pairs = opt
            .list(&example, d)
            .map(|list| (list.is_empty(), expr::pairs(list, name, d)));
        match pairs {
            Some((true, _)) => {
                d.error(&opt.key, format!("`{name}` is empty"))
                    .help(format!("`{example}`"));
                Vec::new()
            }
            Some((_, pairs)) => pairs,
            None => Vec::new(),
        }
    }

    /// Reads `name = "text"`, which must be one of `known`; the first of them if the option is
    /// absent.
    pub(crate) fn choice<'a>(&self, name: &str, known: &[&'a str], d: &mut Diagnostics) -> &'a str {
        let text = self
            .get(name)
            .and_then(|opt| opt.text(&format!("{name} = \"{}\"", known[0]), d));
        let Some(text) = text else { return known[0] };
        let value = text.value();
        known
            .iter()
            .find(|k| **k == value)
            .copied()
            .unwrap_or_else(|| {
                d.error(&text, format!("unknown value `{value}` of `{name}`"))
                    .suggest(&value, known.iter().copied());
                known[0]
            })
    }

    /// Reads a boolean option: the bare word, or `name = true`. `false` if the option is absent.
    pub(crate) fn flag(&self, name: &str, d: &mut Diagnostics) -> bool {
        self.get(name)
            .and_then(|opt| opt.boolean(d))
            .unwrap_or(false)
    }

    /// Reads a bare name after `=`.
    pub(crate) fn ident(&self, name: &str, example: &str, d: &mut Diagnostics) -> Option<Ident> {
        self.get(name).and_then(|opt| opt.ident(example, d))
    }

    /// Reads any expression after `=`.
    pub(crate) fn expr(&self, name: &str, example: &str, d: &mut Diagnostics) -> Option<&Expr> {
        self.get(name).and_then(|opt| opt.expr(example, d))
    }

    /// Reads `name(a, b)`.
    pub(crate) fn names(&self, name: &str, d: &mut Diagnostics) -> Vec<Ident> {
        let list = self
            .get(name)
            .and_then(|opt| opt.list(&format!("{name}(slug)"), d));
        list.map(|list| options::each::<Name>(list, d))
            .unwrap_or_default()
            .into_iter()
            .map(|Name(name)| name)
            .collect()
    }
}
