//! The rules on `soft_delete`, `ttl`, `tenant`, `scope` and public routes.

use syn::Ident;
use syn::ext::IdentExt;

use super::model::{From, Scope, SoftDelete, Ttl, Visibility};
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
    soft_delete(model, d);
    ttl(model, d);
    tenant(model, d);
    for (i, scope) in visibility.scopes.iter().enumerate() {
        self::scope(model, scope, d);
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
    parent(model, d);
    for (i, field) in model.fields.iter().enumerate() {
        owned(visibility, i, field, d);
    }
    public_routes(model, d);
}

/// `soft_delete` needs an optional date, or an enum and one of its values.
fn soft_delete(model: &EntityModel, d: &mut Diagnostics) {
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
                "every new record would be deleted: its default marks deleted records of `{name}`"
            ),
        )
        .help("another default");
    }
    let private = of.options.flag(Flag::WriteOnly).filter(|_| value.is_none());
    if let Some(flag) = private {
        d.error(flag, format!("`{name}` is written by the server alone"))
            .help("leave the option out");
    }
}

/// `ttl(field)` needs an optional date of its own.
fn ttl(model: &EntityModel, d: &mut Diagnostics) {
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
        d.error(at, format!("`{}` marks deleted records already", of.name))
            .help("another field");
    }
}

/// `tenant` needs a field that is written from the context.
fn tenant(model: &EntityModel, d: &mut Diagnostics) {
    let Some(tenant) = &model.visibility.tenant else {
        return;
    };
    bindable(&model.fields[tenant.field], "tenant", &tenant.at, d);
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
            "`anonymous_read` needs an optional tenant: anonymous callers read records without one",
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

/// `scope` needs a field that is written from its source, and `apply_to` needs known routes.
fn scope(model: &EntityModel, scope: &Scope, d: &mut Diagnostics) {
    let of = &model.fields[scope.field];
    bindable(of, "scope", &scope.at, d);
    if let From::Ctx(path, at) = &scope.from
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
        } else if let Some(meant) = misspelt(route) {
            d.error(route, format!("unknown route `{route}` in apply_to"))
                .help(format!("`{meant}`"));
        }
    }
    if d.len() > before {
        // The routes that seem to be missing may be the misspelt ones.
        return;
    }
    if scope.holds_on("list") && scope.unscoped.is_none() {
        for route in MUTATING.iter().filter(|route| !scope.holds_on(route)) {
            let name = &of.name;
            d.error(
                &apply.key,
                format!("`{route}` is left out of scope `{name}`"),
            )
            .help(format!(
                "add `{route}`, or say why not: `unscoped = \"reason\"`"
            ));
        }
    }
    if !scope.holds_on("create") && !of.optional && !of.has_default() {
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
/// extra or wrong letters. Probable names of operations (`set`, `last`, `deleted`) do not count.
/// `package!` knows the operations and checks those names.
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

/// A field that is written from the context and compared with it.
fn bindable(of: &Field, what: &str, at: &Ident, d: &mut Diagnostics) {
    let name = &of.name;
    if of.has(Flag::Primary) {
        d.error(at, format!("{what} field `{name}` is the primary key"))
            .help("a field of its own");
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
fn owned(visibility: &Visibility, index: usize, field: &Field, d: &mut Diagnostics) {
    let Some(owner) = field.owned else { return };
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
    let needed = visibility
        .scopes
        .iter()
        .any(|scope| scope.field == index && !scope.holds_on("create"));
    if let Some(at) = at.filter(|_| !needed) {
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
        .filter(|_| field.is_callers())
    {
        d.error(
            at,
            format!("`{}` {owner}: no client may write it", field.name),
        )
        .help("`private`, or leave the option out");
    }
}

/// A scope binds every parameter of the parent path, and every bound parameter exists.
fn parent(model: &EntityModel, d: &mut Diagnostics) {
    let visibility = &model.visibility;
    let known: Vec<String> = visibility.path_parameters().collect();
    let wire = |ident: &Ident| names::camel(&names::snake(&ident.to_string()));
    for scope in &visibility.scopes {
        let From::Path(name) = &scope.from else {
            continue;
        };
        if !known.contains(&wire(name)) {
            let problem = d.error(name, format!("`{{{name}}}` is no parameter of parent_path"));
            if known.is_empty() {
                problem.help(format!("`parent_path = \"documents/{{{name}}}\"`"));
            } else {
                problem.help(format!("known: {}", list(&known)));
            }
        }
        if let Some(apply) = &scope.apply_to {
            d.error(
                &apply.key,
                format!("`{{{name}}}` stands in the path of every route"),
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
            .any(|s| matches!(&s.from, From::Path(ident) if wire(ident) == on_wire))
        {
            d.error(
                &parent.text,
                format!("`{{{name}}}` of parent_path is bound to no field"),
            )
            .help(format!("`scope({name} = param({name}))`"));
        }
    }
}

/// A route that may be public.
pub(crate) struct Route<'a> {
    pub(crate) name: &'a str,
    /// Whether it only reads.
    pub(crate) reads: bool,
    /// `unscoped` of an operation.
    pub(crate) unscoped: bool,
}

/// Returns the reason why a route cannot be public; `None` if it can.
pub(crate) fn public(model: &EntityModel, route: &Route<'_>) -> Option<(String, String)> {
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
    let scope = visibility
        .scopes
        .iter()
        .find(|s| matches!(s.from, From::Ctx(..)) && s.holds_on(name) && !route.unscoped)?;
    let field = &model.fields[scope.field].name;
    let message =
        format!("route `{name}` is public but `{entity}` is scoped to its caller by `{field}`");
    Some((message, "leave `auth = none` out".to_owned()))
}

fn public_routes(model: &EntityModel, d: &mut Diagnostics) {
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
            // One word makes all routes public: one error.
            (None, Some(Auth::None(word))) if !inherited => word,
            _ => continue,
        };
        if let Some((message, help)) = public(model, &route) {
            inherited |= policy.auth.is_none();
            d.error(word, message).help(help);
        }
    }
}

/// Whether a public route has been reported for the defaults that an operation's route inherits.
pub(crate) fn reported(model: &EntityModel) -> bool {
    let inherits = |(name, policy): (&&str, &Policy)| {
        let route = Route {
            name,
            reads: matches!(*name, "get" | "list"),
            unscoped: false,
        };
        !policy.disabled && policy.auth.is_none() && public(model, &route).is_some()
    };
    matches!(model.defaults.auth, Some(Auth::None(_)))
        && ROUTES.iter().zip(&model.routes).any(inherits)
}
