//! Requirements of policies: extensions of the document, and the resulting errors.

use serde_json::{Map, Value as Json, json};

use crate::Code;
use crate::http::{AuthDesc, Endpoint, GuardArg, PermissionDesc, Policy};

/// `x-linchpin-roles`, `-guards` and `-permission`. Fields have their wire names; fields that are
/// not readable are left out.
pub(super) fn describe(out: &mut Json, endpoint: &Endpoint) {
    let policy = &endpoint.policy;
    if !policy.roles.is_empty() {
        out["x-linchpin-roles"] = json!(policy.roles);
    }
    let guards = guards(endpoint);
    if !guards.is_empty() {
        out["x-linchpin-guards"] = guards.into();
    }
    let Some(permission) = policy.permission else {
        return;
    };
    let mut shown = Map::new();
    shown.insert("requires".to_owned(), json!(permission.requires));
    if !permission.or.is_empty() {
        shown.insert("or".to_owned(), json!(permission.or));
    }
    for (key, field) in [
        ("ownerField", permission.owner_field),
        ("resource", permission.resource),
        ("rank", permission.rank),
    ] {
        let fields = endpoint.table.iter().flat_map(|table| table.desc.fields);
        if let Some(field) = fields
            .filter(|f| f.readable())
            .find(|f| Some(f.name) == field)
        {
            shown.insert(key.to_owned(), json!(field.wire));
        }
    }
    if permission.hide {
        shown.insert("hide".to_owned(), json!(true));
    }
    out["x-linchpin-permission"] = Json::Object(shown);
}

/// A permission with the declared names, for the route report.
pub(crate) fn permission(declared: &PermissionDesc) -> Json {
    json!({
        "requires": declared.requires, "or": declared.or, "owner": declared.owner_field, "resource": declared.resource, "rank": declared.rank,
        "hide": declared.hide,
    })
}

/// The guards of a route in the order of execution: guards of the app with their pattern, then its
/// own.
pub(crate) fn guards(endpoint: &Endpoint) -> Vec<Json> {
    let guard = |name: &str, argument: Option<Json>| {
        let mut shown = json!({ "name": name });
        if let Some(argument) = argument {
            shown["argument"] = argument;
        }
        shown
    };
    let of_app = endpoint.guards.iter().map(|at| {
        let (name, argument) = at.guard().name_and_argument();
        let mut shown = guard(name, argument);
        shown["path"] = json!(at.pattern());
        shown
    });
    let own = endpoint
        .policy
        .guards
        .iter()
        .map(|own| guard(own.name, own.argument.map(GuardArg::to_json)));
    of_app.chain(own).collect()
}

/// The error codes of a route's requirements.
pub(super) fn codes(endpoint: &Endpoint, out: &mut Vec<Code>) {
    of_policy(&endpoint.policy, out);
    if !endpoint.guards.is_empty() {
        out.extend([Code::Unauthorized, Code::Forbidden]);
    }
}

/// The error codes of a policy, of the route itself or of a list that it reads.
pub(super) fn of_policy(policy: &Policy, out: &mut Vec<Code>) {
    match policy.auth {
        AuthDesc::None => {}
        AuthDesc::Named("userAuth") => out.push(Code::Unauthorized),
        AuthDesc::Named(_) => out.extend([Code::Unauthorized, Code::Forbidden]),
    }
    if let Some(limit) = policy.rate_limit {
        out.push(Code::RateLimited);
        out.extend((!limit.fail_open).then_some(Code::Unavailable));
    }
    if !policy.roles.is_empty() || !policy.guards.is_empty() {
        out.push(Code::Forbidden);
    }
    if let Some(permission) = policy.permission {
        out.extend([
            if permission.hide {
                Code::NotFound
            } else {
                Code::Forbidden
            },
            Code::Unavailable,
        ]);
    }
}
