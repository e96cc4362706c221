//! The options, resolved against the fields of the entity.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Expr, Ident};

use super::args::{ApplyTo, ParentArgs, SoftDeleteArgs, TtlArgs, VisibilityArgs};
use crate::diagnostics::Diagnostics;
use crate::entity::Field;
use crate::expr::{CtxPath, Source};
use crate::names;

/// The reason why only the server writes the date of a soft delete.
pub(crate) const MARK: &str = "marks deleted records";

/// The declared visibility of records.
#[derive(Debug, Default)]
pub(crate) struct Visibility {
    pub(crate) soft_delete: Option<SoftDelete>,
    pub(crate) ttl: Option<Ttl>,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) parent: Option<ParentArgs>,
    /// Whether an option could not be read or resolved. A missing option may then be intended.
    pub(crate) has_unread_options: bool,
}

impl Visibility {
    /// The fields that options name, as written.
    pub(crate) fn named_fields(&self) -> impl Iterator<Item = &Ident> {
        let expiry = self.ttl.iter().filter_map(|ttl| {
            if let Ttl::At(_, at) = ttl {
                Some(at)
            } else {
                None
            }
        });
        let tenant = self.tenant.iter().map(|tenant| &tenant.at);
        self.soft_delete
            .iter()
            .map(|mark| &mark.at)
            .chain(expiry)
            .chain(tenant)
            .chain(self.scopes.iter().map(|scope| &scope.at))
    }
}

/// The field that marks deleted records, and its value for them.
#[derive(Debug)]
pub(crate) struct SoftDelete {
    pub(crate) field: usize,
    /// The field as written.
    pub(crate) at: Ident,
    /// The variant that marks deleted records; `None` if the field is a date.
    pub(crate) value: Option<Expr>,
}

/// The expiry of records.
#[derive(Debug)]
pub(crate) enum Ttl {
    /// The record expires this number of milliseconds after the last change. A hidden field, which
    /// is the last one, stores the date.
    After(u64),
    /// The record expires at the date in this field.
    At(usize, Ident),
}

/// The tenant of records.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) field: usize,
    pub(crate) at: Ident,
    pub(crate) optional: bool,
    pub(crate) anonymous_read: Option<Ident>,
}

/// A field that must equal a value of the call.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) field: usize,
    pub(crate) at: Ident,
    pub(crate) from: ScopeSource,
    pub(crate) apply_to: Option<ApplyTo>,
    /// The reason why the scope does not apply to the other routes.
    pub(crate) unscoped: Option<syn::LitStr>,
}

/// The source of a scope's value.
#[derive(Debug, Clone)]
pub(crate) enum ScopeSource {
    Ctx(CtxPath, Box<Expr>),
    /// A parameter of the parent path.
    Path(Ident),
}

impl Visibility {
    /// Resolves the options, and marks the fields that only the server writes because of them.
    pub(crate) fn resolve(args: VisibilityArgs, fields: &mut [Field], d: &mut Diagnostics) -> Self {
        let before = d.len();
        let find = |ident: &Ident, of: &str, fields: &[Field], d: &mut Diagnostics| {
            let name = ident.unraw().to_string();
            let found = fields.iter().position(|f| f.name == name && !f.generated);
            if found.is_none() {
                d.error(ident, format!("unknown {of} field `{name}`"))
                    .suggest(&name, fields.iter().map(|f| f.name.as_str()));
            }
            found
        };
        let soft_delete = args
            .soft_delete
            .and_then(|SoftDeleteArgs { field: at, value }| {
                let field = find(&at, "soft_delete", fields, d)?;
                Some(SoftDelete { field, at, value })
            });
        let ttl = args.ttl.and_then(|ttl| match ttl {
            TtlArgs::After(millis) => Some(Ttl::After(millis)),
            TtlArgs::Field(at) => find(&at, "ttl", fields, d).map(|field| Ttl::At(field, at)),
        });
        let tenant = args.tenant.and_then(|tenant| {
            let field = find(&tenant.field, "tenant", fields, d)?;
            Some(Tenant {
                field,
                at: tenant.field,
                optional: tenant.optional,
                anonymous_read: tenant.anonymous_read,
            })
        });
        let scopes = args.scopes.into_iter().filter_map(|scope| {
            let field = find(&scope.field, "scope", fields, d)?;
            let from = match scope.from {
                Source::Ctx(path, at) => ScopeSource::Ctx(path, Box::new(at)),
                Source::Param(name) => ScopeSource::Path(name),
                // The parser refuses all other forms.
                _ => return None,
            };
            Some(Scope {
                field,
                at: scope.field,
                from,
                apply_to: scope.apply_to,
                unscoped: scope.unscoped,
            })
        });
        let scopes: Vec<Scope> = scopes.collect();
        if let Some(SoftDelete {
            field, value: None, ..
        }) = &soft_delete
        {
            fields[*field].server_only_reason = Some(MARK);
        }
        for scope in &scopes {
            fields[scope.field].server_only_reason = Some("is the scope of the record");
        }
        if let Some(tenant) = &tenant {
            fields[tenant.field].server_only_reason = Some("is the tenant of the record");
        }
        Self {
            soft_delete,
            ttl,
            tenant,
            scopes,
            parent: args.parent,
            has_unread_options: args.unread || d.len() > before,
        }
    }

    /// Returns the values that decide which records a caller can list, as written: the tenant and
    /// the context values of scopes.
    pub(crate) fn partition(&self) -> Vec<String> {
        let tenant = self.tenant.as_ref().map(|tenant| {
            let optional = if tenant.optional { "optional " } else { "" };
            format!("the {optional}tenant")
        });
        let scopes = self
            .scopes
            .iter()
            .filter(|scope| scope.applies_to_route("list"));
        let scopes = scopes.filter_map(|scope| match &scope.from {
            ScopeSource::Ctx(_, at) => Some(at.to_token_stream().to_string().replace(' ', "")),
            ScopeSource::Path(_) => None,
        });
        let mut all: Vec<String> = tenant.into_iter().chain(scopes).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether no option is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.soft_delete.is_none()
            && self.ttl.is_none()
            && self.tenant.is_none()
            && self.scopes.is_empty()
            && self.parent.is_none()
    }

    /// Whether the field is the tenant or a scope. A scope with `apply_to` counts too.
    pub(crate) fn restricts_by(&self, field: usize) -> bool {
        self.is_tenant(field) || self.scopes.iter().any(|scope| scope.field == field)
    }

    /// Whether each statement of a route compares the field with one value: it is the tenant, or a
    /// scope that applies to the route.
    pub(crate) fn pins(&self, field: usize, route: &str) -> bool {
        let pinned = |scope: &Scope| scope.field == field && scope.applies_to_route(route);
        self.is_tenant(field) || self.scopes.iter().any(pinned)
    }

    fn is_tenant(&self, field: usize) -> bool {
        self.tenant
            .as_ref()
            .is_some_and(|tenant| tenant.field == field)
    }

    /// Whether the field marks deleted records or holds the expiry.
    pub(crate) fn deletes_or_expires(&self, field: usize) -> bool {
        self.soft_delete
            .as_ref()
            .is_some_and(|mark| mark.field == field)
            || matches!(self.ttl, Some(Ttl::At(at, _)) if at == field)
    }

    /// Returns the wire names of the parent path's parameters.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = String> {
        let segments = self.parent.iter().flat_map(|parent| &parent.segments);
        segments.filter_map(|segment| match segment {
            crate::operation::path::Segment::Param(name) => Some(names::camel(&names::snake(name))),
            crate::operation::path::Segment::Lit(_) => None,
        })
    }

    /// Whether an expression is the value of this field that marks deleted records. Two paths with
    /// the same last segment count as equal.
    pub(crate) fn marks_deleted(&self, field: usize, value: &Expr) -> bool {
        let Some(SoftDelete {
            field: mark_field,
            value: Some(mark),
            ..
        }) = &self.soft_delete
        else {
            return false;
        };
        let last_segment = |expr: &Expr| match expr {
            Expr::Path(path) => path
                .path
                .segments
                .last()
                .map(|segment| segment.ident.unraw().to_string()),
            _ => None,
        };
        *mark_field == field
            && last_segment(value).is_some()
            && last_segment(value) == last_segment(mark)
    }
}

impl Scope {
    /// Whether the scope applies to a route.
    pub(crate) fn applies_to_route(&self, route: &str) -> bool {
        self.apply_to.as_ref().is_none_or(|apply| {
            apply
                .routes
                .iter()
                .any(|r| names::snake(&r.unraw().to_string()) == route)
        })
    }
}
