//! Route policy: the keys that `routes(..)` of an entity and `route(..)` of an operation or extra route share.

pub(crate) mod audit;
pub(crate) mod event;
mod guards;
pub(crate) mod idempotent;
pub(crate) mod middleware;
pub(crate) mod narrow;
pub(crate) mod once;
pub(crate) mod permission;
pub(crate) mod quantity;
mod rate;
mod roles;

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::{Ident, LitStr};

use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt};

/// What is declared for one route; `None` inherits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    pub(crate) auth: Option<Auth>,
    roles: Option<roles::Roles>,
    guards: Option<Vec<guards::Guard>>,
    pub(crate) permission: Option<permission::Permission>,
    middleware: Option<Vec<middleware::Middleware>>,
    pub(crate) disabled: bool,
    /// The word, and how many bytes.
    max_body: Option<(Ident, u64)>,
    /// In milliseconds.
    pub(crate) timeout: Option<u64>,
    pub(crate) event: Option<event::Event>,
    pub(crate) rate_limit: Option<rate::RateLimit>,
    pub(crate) audit: Option<audit::Audit>,
    pub(crate) idempotent: Option<idempotent::Idempotent>,
    pub(crate) input: Option<narrow::Fields>,
    pub(crate) output: Option<narrow::Fields>,
    pub(crate) once: Option<once::Once>,
    pub(crate) summary: Option<LitStr>,
    /// Of a route that has no doc comment of its own, and the word.
    pub(crate) description: Option<(Ident, LitStr)>,
    pub(crate) tags: Option<Vec<LitStr>>,
    pub(crate) deprecated: bool,
}

/// Who may call.
#[derive(Debug, Clone)]
pub(crate) enum Auth {
    /// `auth = none`, and the word.
    None(Ident),
    /// `auth = "userAuth"`.
    Named(LitStr),
}

/// The keys that [`Policy::option`] reads.
pub(crate) const KEYS: &[&str] = &[
    "auth",
    "roles",
    "guards",
    "permission",
    "middleware",
    "disabled",
    "max_body",
    "timeout",
    "event",
    "rate_limit",
    "idempotent",
    "audit",
    "input",
    "output",
    "output_once",
    "summary",
    "tags",
    "deprecated",
];

/// What belongs to one route, if that has no doc comment of its own; the first two are none of the policy.
pub(crate) const OF_ONE: &[&str] = &["method", "path", "description"];

/// Keys of the policy that come later.
pub(crate) const LATER: &[&str] = &["base"];

impl Policy {
    /// Reads one option into the policy; `false` when its key is not one of [`KEYS`].
    pub(crate) fn option(&mut self, opt: &Opt, d: &mut Diagnostics) -> bool {
        match opt.name().as_str() {
            "auth" => self.auth = auth(opt, d),
            "roles" => self.roles = roles::read(opt, d),
            "guards" => self.guards = guards::read(opt, d),
            "permission" => self.permission = permission::read(opt, d),
            "middleware" => self.middleware = middleware::read(opt, d),
            "disabled" => self.disabled = opt.flag(d),
            "max_body" => self.max_body = quantity::bytes(opt, d).map(|bytes| (opt.key.clone(), bytes)),
            "timeout" => self.timeout = quantity::timeout(opt, d),
            "event" => self.event = event::read(opt, d),
            "rate_limit" => self.rate_limit = rate::read(opt, d),
            "idempotent" => self.idempotent = idempotent::read(opt, d),
            "audit" => self.audit = audit::read(opt, d),
            "input" => self.input = narrow::read(opt, "input(title, body)", d),
            "output" => self.output = narrow::read_output(opt, d),
            "output_once" => self.once = once::read(opt, d),
            "summary" => self.summary = opt.text("summary = \"Publishes a post\"", d),
            "description" => {
                self.description = opt.text("description = \"What it does, at length.\"", d).map(|text| (opt.key.clone(), text));
            }
            "tags" => self.tags = tags(opt, d),
            "deprecated" => self.deprecated = opt.flag(d),
            // A list takes it before it comes here.
            "paging" => {
                d.error(&opt.key, "pages by number are those of a list or a lookup")
                    .help("`routes(list(paging = \"page\"))` on the entity, or `paginate = \"page\"` on a lookup");
            }
            _ => return false,
        }
        true
    }

    /// The fields of the entity that it names, as written.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Ident> {
        let narrowed = [&self.input, &self.output].into_iter().flatten().flat_map(narrow::Fields::named);
        narrowed.chain(self.permission.iter().flat_map(permission::Permission::of_record))
    }

    /// Whether it lets some callers through and others not.
    pub(crate) fn chooses_callers(&self) -> bool {
        self.roles.is_some() || self.permission.is_some()
    }

    /// Refuses a bound of the body where none is read.
    pub(crate) fn refuse_max_body(&self, what: &str, d: &mut Diagnostics) {
        if let Some((key, _)) = &self.max_body {
            d.error(key, format!("{what} takes no body")).help("leave `max_body` out");
        }
    }

    /// Whether nothing is declared.
    pub(crate) fn is_inherit(&self) -> bool {
        self.calls(&TokenStream::new()).is_empty()
    }

    /// The descriptor of a route of this entity; `__lp` is in scope.
    pub(crate) fn tokens(&self, entity: &TokenStream) -> TokenStream {
        let calls = self.calls(entity);
        quote!(__lp::PolicyDesc::INHERIT #calls)
    }

    /// What is declared, as calls on the empty descriptor.
    fn calls(&self, entity: &TokenStream) -> TokenStream {
        let auth = self.auth.as_ref().map(|auth| match auth {
            Auth::None(_) => quote!(.auth(__lp::AuthDesc::None)),
            Auth::Named(name) => quote!(.auth(__lp::AuthDesc::Named(#name))),
        });
        let roles = self.roles.as_ref().map(roles::Roles::tokens);
        let guards = self.guards.as_ref().map(|list| quote!(.guards(&[#(#list),*])));
        let permission = self.permission.as_ref().map(permission::Permission::tokens);
        let middleware = self.middleware.as_ref().and_then(|list| middleware::tokens(list));
        let disabled = self.disabled.then(|| quote!(.disable()));
        let max_body = self.max_body.as_ref().map(|(_, bytes)| Literal::u64_unsuffixed(*bytes)).map(|bytes| quote!(.max_body(#bytes)));
        let timeout = self.timeout.map(Literal::u64_unsuffixed).map(|ms| quote!(.timeout(#ms)));
        let event = self.event.as_ref().map(event::Event::tokens);
        let rate_limit = self.rate_limit.as_ref().map(rate::RateLimit::tokens);
        let idempotent = self.idempotent.as_ref().map(idempotent::Idempotent::tokens);
        let audit = self.audit.as_ref().map(audit::Audit::tokens);
        let input = self.input.as_ref().map(narrow::Fields::tokens).map(|names| quote!(.input(#names)));
        let output = self.output.as_ref().map(|output| output.shown(entity));
        let once = self.once.as_ref().map(once::Once::tokens);
        let summary = self.summary.as_ref().map(|text| quote!(.summary(#text)));
        let description = self.description.as_ref().map(|(_, text)| quote!(.description(#text)));
        let tags = self.tags.as_ref().map(|tags| quote!(.tags(&[#(#tags),*])));
        let deprecated = self.deprecated.then(|| quote!(.deprecated()));
        quote!(#auth #roles #guards #permission #middleware #disabled #max_body #timeout #event #rate_limit #idempotent #audit #input #output #once #summary #description #tags #deprecated)
    }
}

fn auth(opt: &Opt, d: &mut Diagnostics) -> Option<Auth> {
    let value = opt.expr("auth = \"userAuth\"", d)?;
    if let Some(name) = options::as_text(value) {
        let text = name.value();
        if text.is_empty() {
            d.error(name, "`auth` names no handler").help("`auth = \"userAuth\"` or `auth = none`");
            return None;
        }
        if text == "none" {
            // The closed default must not be opened by a text that looks like a handler's name.
            d.error(name, "a public route is written with the bare word").help("`auth = none`");
            return None;
        }
        return Some(Auth::Named(name.clone()));
    }
    match options::as_ident(value) {
        Some(ident) if ident == "none" => Some(Auth::None(ident.clone())),
        Some(ident) => {
            d.error(ident, format!("unknown auth `{ident}`"))
                .help(format!("`auth = none`, or the name of a handler: `auth = \"{ident}\"`"));
            None
        }
        None => {
            d.error(value, "`auth` is the name of a handler").help("`auth = \"userAuth\"` or `auth = none`");
            None
        }
    }
}

fn tags(opt: &Opt, d: &mut Diagnostics) -> Option<Vec<LitStr>> {
    let list = opt.list("tags(\"search\")", d)?;
    let tags = options::each::<LitStr>(list, d);
    if tags.is_empty() && opt.is_empty_list() {
        d.error(&opt.key, "`tags` names none").help("`tags(\"search\")`");
    }
    Some(tags)
}
