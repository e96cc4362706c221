//! The syntax of the options: tokens to plain structs, without checks.

use darling::FromMeta;
use syn::{Expr, Ident, LitStr};

use crate::diagnostics::Diagnostics;
use crate::expr::Source;
use crate::operation::path::{Segment, segments};
use crate::options::{self, Opt, OptValue, Rest};
use crate::policy;

/// The options as written.
#[derive(Debug, Default)]
pub(crate) struct VisibilityArgs {
    pub(crate) soft_delete: Option<SoftDeleteArgs>,
    pub(crate) ttl: Option<TtlArgs>,
    pub(crate) tenant: Option<TenantArgs>,
    pub(crate) scopes: Vec<ScopeArgs>,
    pub(crate) parent: Option<ParentArgs>,
    /// Whether one of the options could not be read.
    pub(crate) unread: bool,
}

/// `soft_delete(deleted_at)` or `soft_delete(status = Status::Gone)`.
#[derive(Debug, Clone)]
pub(crate) struct SoftDeleteArgs {
    pub(crate) field: Ident,
    pub(crate) value: Option<Expr>,
}

/// `ttl("1h")` or `ttl(expires_at)`.
#[derive(Debug)]
pub(crate) enum TtlArgs {
    /// The time in milliseconds.
    After(u64),
    Field(Ident),
}

/// `tenant(tenant_id, optional, anonymous_read)`.
#[derive(Debug)]
pub(crate) struct TenantArgs {
    pub(crate) field: Ident,
    pub(crate) optional: bool,
    /// The word `anonymous_read`.
    pub(crate) anonymous_read: Option<Ident>,
}

/// `scope(owner_id = ctx(actor.id), apply_to(get, list), unscoped = "reason")`.
#[derive(Debug)]
pub(crate) struct ScopeArgs {
    pub(crate) field: Ident,
    pub(crate) from: Source,
    pub(crate) apply_to: Option<ApplyTo>,
    pub(crate) unscoped: Option<LitStr>,
}

/// The routes that a scope applies to.
#[derive(Debug, Clone)]
pub(crate) struct ApplyTo {
    /// The word `apply_to`.
    pub(crate) key: Ident,
    pub(crate) routes: Vec<Ident>,
}

/// `parent_path = "documents/{doc_id}"`.
#[derive(Debug)]
pub(crate) struct ParentArgs {
    pub(crate) text: LitStr,
    pub(crate) segments: Vec<Segment>,
}

/// The keys in the table of `#[entity(..)]`.
#[derive(Debug, Default, FromMeta)]
pub(crate) struct VisibilityKeys {
    soft_delete: Option<Opt>,
    ttl: Option<Opt>,
    tenant: Option<Opt>,
    #[darling(multiple)]
    scope: Vec<Opt>,
    parent_path: Option<Opt>,
    #[darling(flatten)]
    pub(crate) rest: Rest,
}

impl VisibilityArgs {
    pub(crate) fn read(keys: VisibilityKeys, d: &mut Diagnostics) -> Self {
        let before = d.len();
        let mut args = Self {
            soft_delete: keys.soft_delete.and_then(|opt| soft_delete(&opt, d)),
            ttl: keys.ttl.and_then(|opt| ttl(&opt, d)),
            tenant: keys.tenant.and_then(|opt| tenant(&opt, d)),
            scopes: keys.scope.iter().filter_map(|opt| scope(opt, d)).collect(),
            parent: keys.parent_path.and_then(|opt| parent(&opt, d)),
            unread: false,
        };
        args.unread = d.len() > before;
        args
    }
}

fn soft_delete(opt: &Opt, d: &mut Diagnostics) -> Option<SoftDeleteArgs> {
    const EXAMPLE: &str = "soft_delete(deleted_at)";
    let options = options::parse(opt.list(EXAMPLE, d)?, d);
    let mut found = None;
    for option in &options {
        let value = match &option.value {
            OptValue::Unreadable => continue,
            OptValue::Flag => None,
            OptValue::Expr(_) if option.name() == "retain" => {
                d.error(
                    &option.key,
                    "soft_delete option `retain` is not supported yet",
                );
                continue;
            }
            OptValue::Expr(value) => Some(value.clone()),
            OptValue::List(_) => {
                d.error(&option.key, "`soft_delete` needs the name of a field")
                    .help(format!(
                        "`{EXAMPLE}` or `soft_delete(status = Status::Gone)`"
                    ));
                continue;
            }
        };
        if found.is_some() {
            d.error(&option.key, "`soft_delete` accepts only one field")
                .help("keep one of them");
        } else {
            found = Some(SoftDeleteArgs {
                field: option.key.clone(),
                value,
            });
        }
    }
    if found.is_none() && options.is_empty() {
        d.error(&opt.key, "`soft_delete` needs a field")
            .help(format!("`{EXAMPLE}`"));
    }
    found
}

fn ttl(opt: &Opt, d: &mut Diagnostics) -> Option<TtlArgs> {
    const EXAMPLE: &str = "ttl(\"1h\")";
    let values: Vec<Expr> = options::each(opt.list(EXAMPLE, d)?, d);
    match &values[..] {
        [value] => {
            if let Some(text) = options::as_text(value) {
                return policy::quantity::duration(text, "ttl", EXAMPLE, d).map(TtlArgs::After);
            }
            if let Some(ident) = options::as_ident(value) {
                return Some(TtlArgs::Field(ident.clone()));
            }
            d.error(value, "`ttl` takes a duration or the name of a date field")
                .help(format!("`{EXAMPLE}` or `ttl(expires_at)`"));
        }
        // An error in the list has been reported.
        [] if !opt.is_empty_list() => {}
        [] => d
            .error(
                &opt.key,
                "`ttl` takes a duration or the name of a date field",
            )
            .help(format!("`{EXAMPLE}` or `ttl(expires_at)`")),
        [_, second, ..] => d
            .error(second, "`ttl` takes one value")
            .help(format!("`{EXAMPLE}` or `ttl(expires_at)`")),
    }
    None
}

fn tenant(opt: &Opt, d: &mut Diagnostics) -> Option<TenantArgs> {
    const EXAMPLE: &str = "tenant(tenant_id)";
    let (mut fields, mut optional, mut anonymous_read) = (Vec::new(), false, None);
    for option in options::parse(opt.list(EXAMPLE, d)?, d) {
        if !option.flag(d) {
            continue;
        }
        match option.name().as_str() {
            "optional" => optional = true,
            "anonymous_read" => anonymous_read = Some(option.key),
            _ => fields.push(option.key),
        }
    }
    let mut fields = fields.into_iter();
    let Some(field) = fields.next() else {
        d.error(&opt.key, "`tenant` needs a field")
            .help(format!("`{EXAMPLE}`"));
        return None;
    };
    if let Some(second) = fields.next() {
        let name = second.to_string();
        let problem = d.error(
            &second,
            format!("`tenant` takes one field and does not accept `{name}`"),
        );
        problem.suggest(&name, ["optional", "anonymous_read"]);
    }
    Some(TenantArgs {
        field,
        optional,
        anonymous_read,
    })
}

fn scope(opt: &Opt, d: &mut Diagnostics) -> Option<ScopeArgs> {
    const EXAMPLE: &str = "scope(owner_id = ctx(actor.id))";
    let (mut bound, mut apply_to, mut unscoped) = (None, None, None);
    let before = d.len();
    let options = options::parse(opt.list(EXAMPLE, d)?, d);
    let unread = d.len() > before;
    options::repeated(&options, &[], d);
    let empty = options.is_empty();
    for option in options {
        match (option.name().as_str(), &option.value) {
            ("apply_to", _) => {
                let routes = option
                    .list("apply_to(get, list)", d)
                    .map(|list| options::each::<Ident>(list, d))
                    .unwrap_or_default();
                if option.is_empty_list() {
                    d.error(&option.key, "`apply_to` names no route")
                        .help("`apply_to(get, list)`; without `apply_to`, the scope applies to every route");
                } else {
                    apply_to = Some(ApplyTo {
                        key: option.key,
                        routes,
                    });
                }
            }
            ("unscoped", _) => unscoped = unscoped_reason(&option, d),
            (_, OptValue::Expr(value)) if bound.is_none() => {
                let source = Source::parse(value, d)?;
                if !matches!(source, Source::Ctx(..) | Source::Param(_)) {
                    d.error(
                        &source.tokens(),
                        "the value of a scope must come from the context or from `parent_path`",
                    )
                    .help("`ctx(actor.id)`, or `param(doc_id)` of the parent path");
                    return None;
                }
                bound = Some((option.key.clone(), source));
            }
            (_, OptValue::Unreadable) => {}
            _ => {
                let message = if bound.is_some() {
                    "`scope` accepts only one field"
                } else {
                    "`scope` needs a field and its value"
                };
                d.error(&option.key, message)
                    .help(format!("`{EXAMPLE}`; `scope` can be repeated"));
            }
        }
    }
    if bound.is_none() && !unread && (empty || apply_to.is_some()) {
        d.error(&opt.key, "`scope` needs a field and its value")
            .help(format!("`{EXAMPLE}`"));
    }
    let (field, from) = bound?;
    Some(ScopeArgs {
        field,
        from,
        apply_to,
        unscoped,
    })
}

/// Reads `unscoped = "reason"`: the reason why the scope does not apply, for the route report.
pub(crate) fn unscoped_reason(opt: &Opt, d: &mut Diagnostics) -> Option<LitStr> {
    let text = opt.text("unscoped = \"moderators see everything\"", d)?;
    if text.value().trim().is_empty() {
        d.error(&text, "`unscoped` needs a reason")
            .help("`unscoped = \"moderators see everything\"`");
        return None;
    }
    Some(text)
}

fn parent(opt: &Opt, d: &mut Diagnostics) -> Option<ParentArgs> {
    let text = opt.text("parent_path = \"documents/{doc_id}\"", d)?;
    let segments = segments(&text, false, d);
    Some(ParentArgs { text, segments })
}
