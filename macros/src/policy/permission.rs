//! `permission(..)`: the required permission on the record of a route.

use darling::FromMeta;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Expr, Ident, LitStr};

use super::Policy;
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, Field, Kind, hidden};
use crate::options::{self, Opt, Rest};

const EXAMPLE: &str = "permission(requires = \"write\", owner_field = author_id)";
const KEYS: &[&str] = &["requires", "or", "owner_field", "hide", "resource", "rank"];

/// The required action, and the field with the owner, who does not need the permission.
#[derive(Debug, Clone)]
pub(crate) struct Permission {
    requires: LitStr,
    or: Vec<LitStr>,
    owner_field: Option<Ident>,
    resource: Option<Ident>,
    rank: Option<Ident>,
    hide: bool,
}

/// The keys of the option.
#[derive(Debug, Default, FromMeta)]
struct Keys {
    requires: Option<Opt>,
    or: Option<Opt>,
    owner_field: Option<Opt>,
    resource: Option<Opt>,
    rank: Option<Opt>,
    hide: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

/// Reads the option.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Permission> {
    let keys: Keys = options::table(options::read(opt.list(EXAMPLE, d)?, d), &[], d);
    keys.rest.refuse("permission", KEYS, &[], d);
    if keys.requires.is_none() && keys.rest.0.is_empty() {
        d.error(
            &opt.key,
            "permission needs `requires`: the action that the evaluator checks",
        )
        .help(format!("`{EXAMPLE}`"));
    }
    let owner_field = keys
        .owner_field
        .and_then(|opt| opt.ident("owner_field = author_id", d));
    let resource = keys
        .resource
        .and_then(|opt| opt.ident("resource = container_id", d));
    let rank = keys.rank.and_then(|opt| opt.ident("rank = user_id", d));
    let hide = keys.hide.is_some_and(|opt| opt.flag(d));
    let requires = keys
        .requires
        .and_then(|opt| action(&opt.text("requires = \"write\"", d)?, d));
    let or = keys
        .or
        .map(|opt| alternative_actions(&opt, requires.as_ref(), d))
        .unwrap_or_default();
    Some(Permission {
        requires: requires?,
        or,
        owner_field,
        resource,
        rank,
        hide,
    })
}

fn action(text: &LitStr, d: &mut Diagnostics) -> Option<LitStr> {
    if text.value().trim().is_empty() {
        d.error(text, "an action has no name")
            .help("`requires = \"write\"`");
        return None;
    }
    Some(text.clone())
}

/// `or = ["moderate"]`.
fn alternative_actions(opt: &Opt, requires: Option<&LitStr>, d: &mut Diagnostics) -> Vec<LitStr> {
    let Some(value) = opt.expr("or = [\"moderate\"]", d) else {
        return Vec::new();
    };
    let Expr::Array(array) = value else {
        d.error(value, "`or` needs a list of actions")
            .help("`or = [\"moderate\"]`");
        return Vec::new();
    };
    if array.elems.is_empty() {
        d.error(array, "`or` is empty").help("leave it out");
    }
    let mut actions: Vec<LitStr> = Vec::new();
    for expr in &array.elems {
        let Some(text) = options::as_text(expr) else {
            d.error(expr, "an action is a text")
                .help("`or = [\"moderate\"]`");
            continue;
        };
        let Some(text) = action(text, d) else {
            continue;
        };
        if requires
            .into_iter()
            .chain(&actions)
            .any(|other| other.value() == text.value())
        {
            d.error(&text, format!("action `{}` repeated", text.value()))
                .help("name each action once");
        } else {
            actions.push(text);
        }
    }
    actions
}

impl Permission {
    /// Returns a call on the descriptor. Fields have their declared names; the route resolves them
    /// when it is mounted.
    pub(super) fn tokens(&self) -> TokenStream {
        let (requires, or) = (&self.requires, &self.or);
        let or = (!or.is_empty()).then(|| quote!(.or(&[#(#or),*])));
        let name = |ident: &Ident| ident.unraw().to_string();
        let owner = self
            .owner_field
            .as_ref()
            .map(name)
            .map(|name| quote!(.owner(#name)));
        let resource = self
            .resource
            .as_ref()
            .map(name)
            .map(|name| quote!(.resource(#name)));
        let rank = self
            .rank
            .as_ref()
            .map(name)
            .map(|name| quote!(.rank(#name)));
        let hide = self.hide.then(|| quote!(.hide()));
        quote!(.permission(const { &__lp::PermissionDesc::new(#requires) #or #owner #resource #rank #hide }))
    }

    /// Checks that the named fields exist, can be read and hold keys.
    fn check(&self, model: &EntityModel, d: &mut Diagnostics) {
        if let Some((name, field)) = self
            .owner_field
            .as_ref()
            .and_then(|name| find("owner_field", name, model, d))
            && !matches!(field.kind, Kind::String | Kind::Uuid | Kind::Other)
        {
            d.error(
                name,
                format!(
                    "owner_field `{name}` must be a string field of {}",
                    model.name
                ),
            )
            .help("it holds `actor.id`, a text");
        }
        if let Some((name, field)) = self
            .resource
            .as_ref()
            .and_then(|name| find("resource", name, model, d))
            && !matches!(
                field.kind,
                Kind::String | Kind::Uuid | Kind::Integer | Kind::Other
            )
        {
            d.error(
                name,
                format!(
                    "resource `{name}` must be a string or integer field of {}",
                    model.name
                ),
            )
            .help("name the field with the key of the permission's resource");
        }
        if let Some((name, field)) = self
            .rank
            .as_ref()
            .and_then(|name| find("rank", name, model, d))
            && !matches!(field.kind, Kind::String | Kind::Uuid | Kind::Other)
        {
            d.error(
                name,
                format!("rank `{name}` must be a string field of {}", model.name),
            )
            .help("it holds the id of a user, a text");
        }
    }

    /// Returns the fields that the option names, as written.
    pub(crate) fn record_fields(&self) -> impl Iterator<Item = &Ident> {
        self.owner_field
            .iter()
            .chain(&self.resource)
            .chain(&self.rank)
    }

    /// Refuses `rank` on a route that does not work on one record. `of` is the end of the message:
    /// the reason why there is no single record.
    fn refuse_rank(&self, of: &str, d: &mut Diagnostics) {
        if let Some(name) = &self.rank {
            d.error(
                name,
                format!("`rank` compares the caller with the user of one record, but {of}"),
            )
            .help("write it on the routes of one record: `delete(permission(.., rank = user_id))`");
        }
    }
}

/// Returns a field that exists and is not hidden.
fn find<'a>(
    key: &str,
    name: &'a Ident,
    model: &'a EntityModel,
    d: &mut Diagnostics,
) -> Option<(&'a Ident, &'a Field)> {
    let Some(index) = model.index_of(name) else {
        d.error(name, format!("unknown field `{name}` in {key}"))
            .suggest(&name.unraw().to_string(), model.field_names());
        return None;
    };
    let field = &model.fields[index];
    if let Some(hidden_by) = hidden(field) {
        d.error(
            name,
            format!("{hidden_by} field `{name}` is not allowed in {key}: fields of a permission must be readable"),
        )
        .help("another field");
        return None;
    }
    Some((name, field))
}

/// Checks the permissions of an entity's own routes.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    for permission in std::iter::once(&model.defaults)
        .chain(&model.routes)
        .filter_map(|policy| policy.permission.as_ref())
    {
        permission.check(model, d);
    }
    let [_, list, ..] = &model.routes;
    for (policy, of) in [
        (&model.defaults, "this permission applies to all routes"),
        (list, "a list returns many records"),
    ] {
        if let Some(permission) = &policy.permission {
            permission.refuse_rank(of, d);
        }
    }
}

/// Checks the permission of an operation. If `records` is true, the operation works on records of
/// its entity. If `one` is true too, it works on exactly one record.
pub(crate) fn check_operation(
    policy: &Policy,
    records: bool,
    one: bool,
    model: &EntityModel,
    d: &mut Diagnostics,
) {
    let Some(permission) = &policy.permission else {
        return;
    };
    permission.check(model, d);
    if records && !one {
        permission.refuse_rank("this operation works on many records", d);
    }
    if !records {
        refuse_record_fields(permission, d);
    }
}

/// Refuses the parts that name fields of a record: a route with a function of the app has no record
/// to check.
pub(crate) fn refuse(policy: &Policy, d: &mut Diagnostics) {
    if let Some(permission) = &policy.permission {
        refuse_record_fields(permission, d);
    }
}

fn refuse_record_fields(permission: &Permission, d: &mut Diagnostics) {
    for name in permission.record_fields() {
        d.error(
            name,
            format!(
                "`{name}` needs a record, but this route has no record that its policy could check"
            ),
        )
        .help("remove it: only the permission evaluator can grant a call of this route");
    }
}
