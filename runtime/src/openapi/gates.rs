//! What a policy asks of a caller: extensions of the document, and the errors that come of them.

use serde_json::{Map, Value as Json, json};

use crate::Code;
use crate::http::{Endpoint, GuardArg};

/// `x-linchpin-roles`, `-guards` and `-permission`. Fields are named as on the wire; hidden ones cannot stand in a policy.
pub(super) fn describe(out: &mut Json, endpoint: &Endpoint) {
    let policy = &endpoint.policy;
    if !policy.roles.is_empty() {
        out["x-linchpin-roles"] = json!(policy.roles);
    }
    if !policy.guards.is_empty() {
        let guards = policy.guards.iter().map(|guard| match guard.argument {
            None => json!({ "name": guard.name }),
            Some(GuardArg::Int(number)) => json!({ "name": guard.name, "argument": number }),
            Some(GuardArg::Text(text)) => json!({ "name": guard.name, "argument": text }),
        });
        out["x-linchpin-guards"] = guards.collect();
    }
    let Some(permission) = policy.permission else { return };
    let mut shown = Map::new();
    shown.insert("requires".to_owned(), json!(permission.requires));
    if !permission.or.is_empty() {
        shown.insert("or".to_owned(), json!(permission.or));
    }
    for (key, field) in [("ownerField", permission.owner_field), ("resource", permission.resource)] {
        let fields = endpoint.table.iter().flat_map(|table| table.desc.fields);
        if let Some(field) = fields.filter(|f| f.readable()).find(|f| Some(f.name) == field) {
            shown.insert(key.to_owned(), json!(field.wire));
        }
    }
    if permission.hide {
        shown.insert("hide".to_owned(), json!(true));
    }
    out["x-linchpin-permission"] = Json::Object(shown);
}

/// What a route can be refused with because of them.
pub(super) fn codes(endpoint: &Endpoint, out: &mut Vec<Code>) {
    let policy = &endpoint.policy;
    if !policy.roles.is_empty() || !policy.guards.is_empty() {
        out.push(Code::Forbidden);
    }
    if let Some(permission) = policy.permission {
        out.extend([if permission.hide { Code::NotFound } else { Code::Forbidden }, Code::Unavailable]);
    }
}
