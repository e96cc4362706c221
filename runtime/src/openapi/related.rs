//! What `include` adds to the document: its parameter, and records with what they name.

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};

use super::names::{self, Names};
use super::{Components, reference, schema};
use crate::entity::{EntityDesc, FieldDesc, Link, Relation};
use crate::http::include::{self, MAX_DEPTH, MAX_PATHS};
use crate::http::{AuthDesc, Endpoint};

/// The parameter, where there is something to include.
pub(super) fn parameter(endpoint: &Endpoint) -> Option<Json> {
    let table = endpoint.table.as_ref().filter(|_| endpoint.includes())?;
    Some(json!({
        "name": include::NAME, "in": "query", "style": "form", "explode": false,
        "description": "What is shown beside the records, under the name of the relation.",
        "schema": {
            "type": "array", "minItems": 1, "maxItems": MAX_PATHS, "uniqueItems": true,
            "items": { "type": "string", "enum": include::paths(table.desc) },
        },
    }))
}

/// Whether what can be included asks more of a caller than the route itself: an identity, and a role.
pub(super) fn asks(endpoint: &Endpoint) -> (bool, bool) {
    let Some(table) = endpoint.table.as_ref().filter(|_| endpoint.includes()) else { return (false, false) };
    let inner = table.desc.relations.iter().flat_map(|relation| (relation.target)().relations);
    let mut asks = (false, false);
    for relation in table.desc.relations.iter().chain(inner) {
        let (policy, target) = (include::policy(relation), (relation.target)());
        let guarded = target.tenant.is_some() || !target.scope.is_empty();
        asks.0 |= guarded || policy.auth != AuthDesc::None;
        asks.1 |= guarded || !policy.roles.is_empty() || !matches!(policy.auth, AuthDesc::None | AuthDesc::Named("userAuth"));
    }
    asks
}

/// The name of the schema of a route's records with what can be included. `Page` behind it names that of their pages.
pub(super) fn output<'a>(endpoint: &Endpoint, records: &'a str, names: &Names, components: &mut Components) -> Cow<'a, str> {
    let Some(table) = endpoint.table.as_ref().filter(|_| endpoint.includes()) else { return records.into() };
    let name = format!("{records}Included");
    let schema = with(table.desc, reference("schemas", records), MAX_DEPTH, names, components);
    components.schemas.insert(name.clone(), schema);
    components.schemas.insert(format!("{name}Page"), schema::page(&name));
    name.into()
}

/// Records with their relations, so many deep.
fn with(desc: &'static EntityDesc, records: Json, depth: usize, names: &Names, components: &mut Components) -> Json {
    if depth == 0 || desc.relations.is_empty() {
        return records;
    }
    let mut properties = Map::new();
    for relation in desc.relations {
        let target = (relation.target)();
        let one = with(target, shown(relation, names, components), depth - 1, names, components);
        let shown = match relation.link {
            Link::BelongsTo { .. } => json!({ "anyOf": [one, { "type": "null" }], "description": "Only when it is included." }),
            Link::HasMany { max, .. } => {
                let mut page = schema::page(target.name);
                page["properties"]["items"] = json!({ "type": "array", "items": one, "maxItems": max });
                page["description"] = json!("Only when it is included. `nextCursor` goes on at the list of the other entity.");
                page
            }
        };
        properties.insert(relation.wire.to_owned(), shown);
    }
    json!({ "allOf": [records, { "type": "object", "properties": properties }] })
}

/// The other entity's records, as its own `get` or `list` shows them.
fn shown(relation: &Relation, names: &Names, components: &mut Components) -> Json {
    let target = (relation.target)();
    let name = names.schema(target).to_owned();
    components.entity(&name, target);
    let Some(fields) = include::policy(relation).output else { return reference("schemas", &name) };
    let route = if let Link::BelongsTo { .. } = relation.link { "get" } else { "list" };
    let name = format!("{name}{}Record", names::pascal(route));
    components.schemas.insert(name.clone(), schema::record(target, |field: &FieldDesc| fields.contains(&field.name)));
    reference("schemas", &name)
}
