//! The rules on `soft_delete`, `ttl`, `tenant`, `scope` and public routes.

use syn::Ident;
use syn::ext::IdentExt;

use super::model::{Scope, ScopeSource, SoftDelete, Ttl, Visibility};
use crate::diagnostics::{Diagnostics, list};
use crate::entity::check::{kind_text, type_text};
use crate::entity::parse::ROUTES;
use crate::entity::{Default, EntityModel, Field, Flag, Kind};
use crate::expr::CtxPath;
use crate::names;
use crate::operation::path::Segment;
use crate::policy::{Auth, Policy};

/// The routes that change records.
const MUTATING: [&str; 3] = ["create", "update", "delete"];

/// Checks the options of an entity.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    let visibility = &model.visibility;
    if visibility.is_empty() {
        return;
    }
    check_soft_delete(model, d);
    check_ttl(model, d);
    check_tenant(model, d);
    for (i, scope) in visibility.scopes.iter().enumerate() {
        check_scope(model, scope, d);
        if visibility.scopes[..i]
            .iter()
            .any(|other| other.field == scope.field)
        {
            d.error(
                &scope.at,
                format!(
                    "field `{}` is in two scopes",
                    model.fields[scope.field].name
                ),
            )
            .help("keep one of them");
        }
    }
    check_parent_path(model, d);
    for (i, field) in model.fields.iter().enumerate() {
        check_server_owned(visibility, i, field, d);
    }
    check_public_routes(model, d);
}

/// Checks that `soft_delete` names an optional date, or an enum and one of its values.
fn check_soft_delete(model: &EntityModel, d: &mut Diagnostics) {
    let Some(SoftDelete { field, at, value }) = &model.visibility.soft_delete else {
        return;
    };
    let of = &model.fields[*field];
    let name = &of.name;
    match value {
        None if of.kind != Kind::Date && of.kind != Kind::Other => {
            d.error(
                at,
                format!(
                    "soft_delete needs an optional date, `{name}` is {}",
                    kind_text(of)
                ),
            )
            .help("an `Option<Timestamp>` field");
        }
        None if !of.optional => {
            d.error(
                at,
                format!("soft_delete needs an optional date, `{name}` is required"),
            )
            .help(format!("`pub {name}: Option<{}>`", type_text(&of.inner)));
        }
        Some(_) if of.kind != Kind::Other => {
            d.error(
                at,
                format!(
                    "soft_delete with a value needs an enum, `{name}` is {}",
                    kind_text(of)
                ),
            )
            .help("`soft_delete(deleted_at)` with an optional date");
        }
        _ => {}
    }
    if let (Default::Value(default), Some(_)) = (&of.options.default, value)
        && model.visibility.marks_deleted(*field, default)
    {
        d.error(
            default,
            format!(
                "every new record would be deleted: the default of `{name}` marks deleted records"
            ),
        )
        .help("another default");
    }
    let write_only = of.options.flag(Flag::WriteOnly).filter(|_| value.is_none());
    if let Some(flag) = write_only {
        d.error(
            flag,
            format!("only the server writes `{name}`, so the field cannot be `write_only`"),
        )
        .help("leave the option out");
    }
}

/// Checks that `ttl(field)` names an optional date that `soft_delete` does not use.
fn check_ttl(model: &EntityModel, d: &mut Diagnostics) {
    let Some(Ttl::At(field, at)) = &model.visibility.ttl else {
        return;
    };
    let of = &model.fields[*field];
    if of.kind != Kind::Date && of.kind != Kind::Other {
        d.error(
            at,
            format!(
                "ttl needs an optional date, `{}` is {}",
                of.name,
                kind_text(of)
            ),
        )
        .help("an `Option<Timestamp>` field");
    } else if !of.optional {
        let ty = type_text(&of.inner);
        d.error(
            at,
            format!("ttl needs an optional date, `{}` is required", of.name),
        )
        .help(format!("`pub {}: Option<{ty}>`", of.name));
    }
    if model
        .visibility
        .soft_delete
        .as_ref()
        .is_some_and(|soft| soft.field == *field)
    {
        d.error(
            at,
            format!("`{}` is already the field of `soft_delete`", of.name),
        )
        .help("another field");
    }
}

/// Checks that `tenant` names a field that can be written from the context.
fn check_tenant(model: &EntityModel, d: &mut Diagnostics) {
    let Some(tenant) = &model.visibility.tenant else {
        return;
    };
    check_bindable(&model.fields[tenant.field], "tenant", &tenant.at, d);
    let of = &model.fields[tenant.field];
    if tenant.optional && !of.optional {
        d.error(
            &tenant.at,
            format!(
                "an optional tenant needs an optional field, `{}` is required",
                of.name
            ),
        )
        .help(format!(
            "`pub {}: Option<{}>`",
            of.name,
            type_text(&of.inner)
        ));
    }
    if let Some(word) = tenant.anonymous_read.as_ref().filter(|_| !tenant.optional) {
        d.error(
            word,
            "`anonymous_read` needs an optional tenant: anonymous callers read records without a tenant",
        )
        .help(format!("`tenant({}, optional, anonymous_read)`", of.name));
    }
    if let Some(scope) = model
        .visibility
        .scopes
        .iter()
        .find(|scope| scope.field == tenant.field)
    {
        d.error(&scope.at, format!("`{}` is the tenant already", of.name))
            .help("leave the scope out");
    }
}

/// Checks that `scope` names a field that can be written from its source, and that `apply_to` names
/// known routes.
fn check_scope(model: &EntityModel, scope: &Scope, d: &mut Diagnostics) {
    let of = &model.fields[scope.field];
    check_bindable(of, "scope", &scope.at, d);
    if let ScopeSource::Ctx(path, at) = &scope.from
        && of.kind == Kind::Integer
        && !matches!(
            path,
            CtxPath::Claim(_) | CtxPath::ActorId | CtxPath::TenantId | CtxPath::Value(_)
        )
    {
        d.error(at, format!("this is a string, `{}` is integer", of.name))
            .help("`ctx(actor.id)` or a claim");
    }
    let Some(apply) = &scope.apply_to else { return };
    let before = d.len();
    for (i, route) in apply.routes.iter().enumerate() {
        if apply.routes[..i].contains(route) {
            d.error(route, format!("route `{route}` repeated in apply_to"))
                .help("name each route once");
        } else if let Some(intended) = misspelt(route) {
            d.error(route, format!("unknown route `{route}` in apply_to"))
                .help(format!("`{intended}`"));
        }
    }
    if d.len() > before {
        // A route that seems to be missing may be one of the misspelt ones.
        return;
    }
    if scope.applies_to_route("list") && scope.unscoped.is_none() {
        for route in MUTATING
            .iter()
            .filter(|route| !scope.applies_to_route(route))
        {
            let name = &of.name;
            d.error(
                &apply.key,
                format!("`{route}` is left out of scope `{name}`"),
            )
            .help(format!(
                "add `{route}`, or give the reason: `unscoped = \"reason\"`"
            ));
        }
    }
    if !scope.applies_to_route("create") && !of.optional && !of.has_default() {
        d.error(
            &apply.key,
            format!(
                "`create` could not fill `{}`, which no client may write",
                of.name
            ),
        )
        .help(format!(
            "add `create`, or make it `Option<{}>`",
            type_text(&of.inner)
        ));
    }
}

/// Returns the generated route that differs from a name by one typing error: swapped, missing,
/// extra or wrong letters. Names that are probably operations (`set`, `last`, `deleted`) are left
/// out: `package!` checks them, because it knows the operations.
fn misspelt(route: &Ident) -> Option<&'static str> {
    let name = names::snake(&route.unraw().to_string());
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    ROUTES.into_iter().find(|route| {
        let other_word = name.starts_with(route)
            || (name.len() == route.len() && route.len() <= 4 && letters(&name) != letters(route));
        !other_word && strsim::damerau_levenshtein(&name, route) == 1
    })
}

/// Checks that a field can be written from the context and compared with it.
fn check_bindable(of: &Field, what: &str, at: &Ident, d: &mut Diagnostics) {
    let name = &of.name;
    if of.has(Flag::Primary) {
        d.error(at, format!("{what} field `{name}` is the primary key"))
            .help("use another field as the key");
    } else if !matches!(
        of.kind,
        Kind::String | Kind::Uuid | Kind::Integer | Kind::Other
    ) {
        d.error(
            at,
            format!(
                "{what} field `{name}` must be String or i64, found {}",
                type_text(&of.inner)
            ),
        )
        .help("`String`");
    }
}

/// Reports options that contradict a field that only the server writes.
fn check_server_owned(visibility: &Visibility, index: usize, field: &Field, d: &mut Diagnostics) {
    let Some(owner) = field.server_only_reason else {
        return;
    };
    let at = match &field.options.default {
        Default::Uuid(word) | Default::Cuid(word) | Default::Now(word) => {
            Some(quote::ToTokens::to_token_stream(word))
        }
        Default::Value(value) | Default::Ctx(_, value) => {
            Some(quote::ToTokens::to_token_stream(value))
        }
        Default::None | Default::Poisoned => None,
    };
    // A scope that does not apply to `create` needs another source of the first value.
    let needs_default = visibility
        .scopes
        .iter()
        .any(|scope| scope.field == index && !scope.applies_to_route("create"));
    if let Some(at) = at.filter(|_| !needs_default) {
        d.error(
            &at,
            format!("`{}` {owner}: the server writes it", field.name),
        )
        .help("leave the default out");
    }
    if let Some(at) = &field.options.on_update {
        d.error(
            at,
            format!("`{}` {owner}: the server writes it", field.name),
        )
        .help("leave the option out");
    }
    if let Some(at) = field
        .options
        .flag(Flag::WriteOnly)
        .filter(|_| field.comes_from_caller())
    {
        d.error(
            at,
            format!("`{}` {owner}: no client may write it", field.name),
        )
        .help("`private`, or leave the option out");
    }
}

/// Checks that a scope binds every parameter of the parent path, and that every bound parameter
/// exists.
fn check_parent_path(model: &EntityModel, d: &mut Diagnostics) {
    let visibility = &model.visibility;
    let known: Vec<String> = visibility.path_parameters().collect();
    let wire = |ident: &Ident| names::camel(&names::snake(&ident.to_string()));
    for scope in &visibility.scopes {
        let ScopeSource::Path(name) = &scope.from else {
            continue;
        };
        if !known.contains(&wire(name)) {
            let problem = d.error(
                name,
                format!("`{{{name}}}` is not a parameter of parent_path"),
            );
            if known.is_empty() {
                problem.help(format!("`parent_path = \"documents/{{{name}}}\"`"));
            } else {
                problem.help(format!("known: {}", list(&known)));
            }
        }
        if let Some(apply) = &scope.apply_to {
            d.error(
                &apply.key,
                format!("`{{{name}}}` is in the path of every route"),
            )
            .help("leave `apply_to` out");
        }
    }
    let Some(parent) = &visibility.parent else {
        return;
    };
    for segment in &parent.segments {
        let Segment::Param(name) = segment else {
            continue;
        };
        let on_wire = names::camel(&names::snake(name));
        if on_wire == "id" {
            d.error(&parent.text, "`{id}` is the record's own key")
                .help("name the parent: `{doc_id}`");
        } else if !visibility
            .scopes
            .iter()
            .any(|s| matches!(&s.from, ScopeSource::Path(ident) if wire(ident) == on_wire))
        {
            d.error(
                &parent.text,
                format!("no scope binds `{{{name}}}` of parent_path to a field"),
            )
            .help(format!("`scope({name} = param({name}))`"));
        }
    }
}

/// A route to check for `auth = none`.
pub(crate) struct Route<'a> {
    pub(crate) name: &'a str,
    /// Whether the route only reads.
    pub(crate) reads: bool,
    /// `unscoped` of an operation.
    pub(crate) unscoped: bool,
}

/// Returns the message and the help for a route that cannot be public; `None` if it can.
pub(crate) fn why_not_public(model: &EntityModel, route: &Route<'_>) -> Option<(String, String)> {
    let visibility = &model.visibility;
    let (name, entity) = (route.name, &model.name);
    if let Some(tenant) = &visibility.tenant
        && !(route.reads && tenant.anonymous_read.is_some())
    {
        let field = &model.fields[tenant.field].name;
        let help = if route.reads {
            format!("`tenant({field}, optional, anonymous_read)`, or leave `auth = none` out")
        } else {
            "leave `auth = none` out".to_owned()
        };
        return Some((
            format!("route `{name}` is public but `{entity}` is tenant-scoped"),
            help,
        ));
    }
    let scope = visibility.scopes.iter().find(|s| {
        matches!(s.from, ScopeSource::Ctx(..)) && s.applies_to_route(name) && !route.unscoped
    })?;
    let field = &model.fields[scope.field].name;
    let message = format!(
        "route `{name}` is public but scope `{field}` of `{entity}` needs an authenticated caller"
    );
    Some((message, "leave `auth = none` out".to_owned()))
}

fn check_public_routes(model: &EntityModel, d: &mut Diagnostics) {
    let mut inherited = false;
    for (name, policy) in ROUTES
        .iter()
        .zip(&model.routes)
        .filter(|(_, policy)| !policy.disabled)
    {
        let route = Route {
            name,
            reads: matches!(*name, "get" | "list"),
            unscoped: false,
        };
        let word = match (&policy.auth, &model.defaults.auth) {
            (Some(Auth::None(word)), _) => word,
            // `auth = none` for all routes is one word, so it causes one error.
            (None, Some(Auth::None(word))) if !inherited => word,
            _ => continue,
        };
        if let Some((message, help)) = why_not_public(model, &route) {
            inherited |= policy.auth.is_none();
            d.error(word, message).help(help);
        }
    }
}

/// Whether the entity reports the `auth = none` of `routes.defaults`. A route of an operation that
/// inherits this option must not report it again.
pub(crate) fn reports_public_defaults(model: &EntityModel) -> bool {
    let inherits = |(name, policy): (&&str, &Policy)| {
        let route = Route {
            name,
            reads: matches!(*name, "get" | "list"),
            unscoped: false,
        };
        !policy.disabled && policy.auth.is_none() && why_not_public(model, &route).is_some()
    };
    matches!(model.defaults.auth, Some(Auth::None(_)))
        && ROUTES.iter().zip(&model.routes).any(inherits)
}
