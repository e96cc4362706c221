//! The policy of a route: the keys that are allowed both in `routes(..)` of an entity and in
//! `route(..)` of an operation or extra route.

pub(crate) mod audit;
pub(crate) mod event;
mod guards;
pub(crate) mod idempotent;
pub(crate) mod middleware;
pub(crate) mod narrow;
pub(crate) mod once;
pub(crate) mod permission;
pub(crate) mod quantity;
pub(crate) mod rate;
mod roles;

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::{Ident, LitStr};

use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt};

/// Declares [`Policy`] from one row for each key: the member and its type, the function that reads
/// the option, and the method call on the runtime's `PolicyDesc`.
///
/// `every` contains the keys of every route, `one` the keys of a single route. Keys with a special
/// syntax are in files of this folder.
macro_rules! keys {
    (
        every { $($(#[doc = $doc:literal])* $key:literal $vis:vis $member:ident: $ty:ty, $read:expr, $call:expr;)* }
        one { $($(#[doc = $one_doc:literal])* $one_key:literal $one_vis:vis $one:ident: $one_ty:ty, $one_read:expr, $one_call:expr;)* }
    ) => {
        /// The declared policy of one route; `None` inherits.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Policy {
            $($(#[doc = $doc])* $vis $member: $ty,)*
            $($(#[doc = $one_doc])* $one_vis $one: $one_ty,)*
        }

        /// The keys of every route.
        pub(crate) const KEYS: &[&str] = &[$($key),*];

        /// The keys of a single route that has no doc comment of its own. `method` and `path` are
        /// not part of the policy.
        pub(crate) const SINGLE_ROUTE_KEYS: &[&str] = &["method", "path", $($one_key),*];

        impl Policy {
            /// Reads one option; `false` if no row has its key.
            fn read(&mut self, opt: &Opt, d: &mut Diagnostics) -> bool {
                match opt.name().as_str() {
                    $($key => {
                        const READ: fn(&Opt, &mut Diagnostics) -> $ty = $read;
                        self.$member = READ(opt, d);
                    })*
                    $($one_key => {
                        const READ: fn(&Opt, &mut Diagnostics) -> $one_ty = $one_read;
                        self.$one = READ(opt, d);
                    })*
                    _ => return false,
                }
                true
            }

            /// Returns the method calls that add the declared keys to the empty descriptor.
            fn calls(&self, entity: &TokenStream) -> TokenStream {
                let mut calls = TokenStream::new();
                $({
                    const CALL: fn(&$ty, &TokenStream) -> Option<TokenStream> = $call;
                    calls.extend(CALL(&self.$member, entity));
                })*
                $({
                    const CALL: fn(&$one_ty, &TokenStream) -> Option<TokenStream> = $one_call;
                    calls.extend(CALL(&self.$one, entity));
                })*
                calls
            }
        }
    };
}

keys! {
    every {
        /// The handler that authenticates the caller.
        "auth" pub(crate) auth: Option<Auth>,
            auth,
            |auth, _| auth.as_ref().map(Auth::tokens);
        /// The roles. The caller needs one of them.
        "roles" roles: Option<roles::Roles>,
            roles::read,
            |roles, _| roles.as_ref().map(roles::Roles::tokens);
        /// The guards, which must all allow the call.
        "guards" guards: Option<Vec<guards::Guard>>,
            guards::read,
            |guards, _| guards.as_ref().map(|list| quote!(.guards(&[#(#list),*])));
        /// The action that the caller needs on the record.
        "permission" pub(crate) permission: Option<permission::Permission>,
            permission::read,
            |permission, _| permission.as_ref().map(permission::Permission::tokens);
        /// Functions around the route.
        "middleware" middleware: Option<Vec<middleware::Middleware>>,
            middleware::read,
            |list, _| list.as_ref().and_then(|list| middleware::tokens(list));
        /// The route is not mounted.
        "disabled" pub(crate) disabled: bool,
            |opt, d| opt.flag(d),
            |disabled, _| disabled.then(|| quote!(.disable()));
        /// The word `max_body`, and the largest body in bytes.
        "max_body" max_body: Option<(Ident, u64)>,
            |opt, d| quantity::bytes(opt, d).map(|bytes| (opt.key.clone(), bytes)),
            |max_body, _| max_body.as_ref().map(|(_, bytes)| {
                let bytes = Literal::u64_unsuffixed(*bytes);
                quote!(.max_body(#bytes))
            });
        /// The maximum duration of a call in milliseconds.
        "timeout" pub(crate) timeout: Option<u64>,
            quantity::timeout,
            |ms, _| ms.map(Literal::u64_unsuffixed).map(|ms| quote!(.timeout(#ms)));
        /// The name and the payload of the route's events.
        "event" pub(crate) event: Option<event::Event>,
            event::read,
            |event, _| event.as_ref().map(event::Event::tokens);
        /// The maximum number of calls of one caller in a time window.
        "rate_limit" pub(crate) rate_limit: Option<rate::RateLimit>,
            rate::read,
            |rate, _| rate.as_ref().map(rate::RateLimit::tokens);
        /// Whether a repeated call has one effect.
        "idempotent" pub(crate) idempotent: Option<idempotent::Idempotent>,
            idempotent::read,
            |idempotent, _| idempotent.as_ref().map(idempotent::Idempotent::tokens);
        /// The action of the route's entries in the audit log.
        "audit" pub(crate) audit: Option<audit::Audit>,
            audit::read,
            |audit, _| audit.as_ref().map(audit::Audit::tokens);
        /// The members of request bodies.
        "input" pub(crate) input: Option<narrow::Fields>,
            |opt, d| narrow::read(opt, "input(title, body)", d),
            |input, _| input.as_ref().map(narrow::Fields::tokens).map(|names| quote!(.input(#names)));
        /// The members of records in responses.
        "output" pub(crate) output: Option<narrow::Fields>,
            narrow::read_output,
            |output, entity| output.as_ref().map(|output| output.output_call(entity));
        /// Members of the first response only.
        "output_once" pub(crate) output_once: Option<once::OutputOnce>,
            once::read,
            |output_once, _| output_once.as_ref().map(once::OutputOnce::tokens);
        /// The summary in the API document.
        "summary" pub(crate) summary: Option<LitStr>,
            |opt, d| opt.text("summary = \"Publishes a post\"", d),
            |summary, _| summary.as_ref().map(|text| quote!(.summary(#text)));
        /// The tags in the API document.
        "tags" pub(crate) tags: Option<Vec<LitStr>>,
            tags,
            |tags, _| tags.as_ref().map(|tags| quote!(.tags(&[#(#tags),*])));
        /// Whether responses have the header `Deprecation: true`.
        "deprecated" pub(crate) deprecated: bool,
            |opt, d| opt.flag(d),
            |deprecated, _| deprecated.then(|| quote!(.deprecated()));
    }
    one {
        /// The word `description`, and its text for the API document.
        "description" pub(crate) description: Option<(Ident, LitStr)>,
            |opt, d| opt.text("description = \"What it does, at length.\"", d).map(|text| (opt.key.clone(), text)),
            |description, _| description.as_ref().map(|(_, text)| quote!(.description(#text)));
    }
}

/// The value of `auth`.
#[derive(Debug, Clone)]
pub(crate) enum Auth {
    /// `auth = none`, and its keyword.
    None(Ident),
    /// `auth = "userAuth"`.
    Named(LitStr),
}

/// Keys that are reserved for a later version.
pub(crate) const PLANNED_KEYS: &[&str] = &["base"];

impl Policy {
    /// Reads one option into the policy; `false` if its key is not a policy key.
    pub(crate) fn option(&mut self, opt: &Opt, d: &mut Diagnostics) -> bool {
        if opt.key == "paging" {
            // If the option is allowed, the list or the lookup has already read it.
            d.error(&opt.key, "only a list or a lookup can have numbered pages")
                .help("`routes(list(paging = \"page\"))` on the entity, or `paginate = \"page\"` on a lookup");
            return true;
        }
        self.read(opt, d)
    }

    /// Returns the fields of the entity that the policy names, as written.
    pub(crate) fn named_fields(&self) -> impl Iterator<Item = &Ident> {
        let narrowed = [&self.input, &self.output]
            .into_iter()
            .flatten()
            .flat_map(narrow::Fields::named_fields);
        narrowed.chain(
            self.permission
                .iter()
                .flat_map(permission::Permission::record_fields),
        )
    }

    /// Whether the policy admits only some authenticated callers.
    pub(crate) fn chooses_callers(&self) -> bool {
        self.roles.is_some() || self.permission.is_some()
    }

    /// Refuses `max_body` on a route that reads no body.
    pub(crate) fn refuse_max_body(&self, what: &str, d: &mut Diagnostics) {
        if let Some((key, _)) = &self.max_body {
            d.error(key, format!("{what} takes no body"))
                .help("leave `max_body` out");
        }
    }

    /// Whether nothing is declared.
    pub(crate) fn is_inherit(&self) -> bool {
        self.calls(&TokenStream::new()).is_empty()
    }

    /// Returns the descriptor for a route of this entity; `__lp` is in scope.
    pub(crate) fn tokens(&self, entity: &TokenStream) -> TokenStream {
        let calls = self.calls(entity);
        quote!(__lp::PolicyDesc::INHERIT #calls)
    }
}

impl Auth {
    /// Returns a call on the descriptor.
    fn tokens(&self) -> TokenStream {
        match self {
            Self::None(_) => quote!(.auth(__lp::AuthDesc::None)),
            Self::Named(name) => quote!(.auth(__lp::AuthDesc::Named(#name))),
        }
    }
}

fn auth(opt: &Opt, d: &mut Diagnostics) -> Option<Auth> {
    let value = opt.expr("auth = \"userAuth\"", d)?;
    if let Some(name) = options::as_text(value) {
        let text = name.value();
        if text.is_empty() {
            d.error(name, "`auth` is empty")
                .help("`auth = \"userAuth\"` or `auth = none`");
            return None;
        }
        if text == "none" {
            // `auth = "none"` looks like the name of a handler, so it must not make a route public.
            d.error(name, "`none` for a public route has no quotes")
                .help("`auth = none`");
            return None;
        }
        return Some(Auth::Named(name.clone()));
    }
    match options::as_ident(value) {
        Some(ident) if ident == "none" => Some(Auth::None(ident.clone())),
        Some(ident) => {
            d.error(ident, format!("unknown auth `{ident}`"))
                .help(format!(
                    "`auth = none`, or the name of a handler: `auth = \"{ident}\"`"
                ));
            None
        }
        None => {
            d.error(
                value,
                "`auth` must be the name of a handler in quotes, or `none`",
            )
            .help("`auth = \"userAuth\"` or `auth = none`");
            None
        }
    }
}

fn tags(opt: &Opt, d: &mut Diagnostics) -> Option<Vec<LitStr>> {
    let list = opt.list("tags(\"search\")", d)?;
    let tags = options::each::<LitStr>(list, d);
    if tags.is_empty() && opt.is_empty_list() {
        d.error(&opt.key, "`tags` is empty")
            .help("`tags(\"search\")`");
    }
    Some(tags)
}
