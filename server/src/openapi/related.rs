//! Related records in the document: `include`, and the sources of a derive.

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};

use super::names::Names;
use super::{Components, narrowed, reference, requirements, schema};
use crate::Code;
use crate::entity::{EntityDesc, FieldDesc, Link};
use crate::http::include::{self, MAX_DEPTH, MAX_PATHS};
use crate::http::related::{self, RelatedRoute};
use crate::http::{Action, Endpoint, Policy};

/// The `include` parameter, if there are relations to include.
pub(super) fn parameter(endpoint: &Endpoint) -> Option<Json> {
    let table = endpoint.table.as_ref().filter(|_| endpoint.includes())?;
    Some(json!({
        "name": include::NAME, "in": "query", "style": "form", "explode": false,
        "description": "Related records to include, by the name of the relation.",
        "schema": {
            "type": "array", "minItems": 1, "maxItems": MAX_PATHS, "uniqueItems": true,
            "items": { "type": "string", "enum": include::paths(table.desc) },
        },
    }))
}

/// The error codes of related records that a call reads: included records, or the sources of a
/// derive.
pub(super) fn codes(endpoint: &Endpoint, out: &mut Vec<Code>) {
    for (target, policy) in reads(endpoint) {
        requirements::of_policy(&policy, out);
        if target.tenant.is_some() || !target.scope.is_empty() {
            out.extend([Code::Unauthorized, Code::Forbidden]);
        }
    }
}

/// The other entities whose records a route can read, and the policies for them.
fn reads(endpoint: &Endpoint) -> Vec<(&'static EntityDesc, Policy)> {
    if let Action::Operation(spec, _) = endpoint.action
        && let Some(derive) = spec.kind.derived()
    {
        return derive
            .entities()
            .into_iter()
            .map(|entity| (entity, related::policy(entity, RelatedRoute::List)))
            .collect();
    }
    let Some(table) = endpoint.table.as_ref().filter(|_| endpoint.includes()) else {
        return Vec::new();
    };
    let inner = table
        .desc
        .relations
        .iter()
        .flat_map(|relation| (relation.target)().relations);
    table
        .desc
        .relations
        .iter()
        .chain(inner)
        .map(|relation| ((relation.target)(), include::policy(relation)))
        .collect()
}

/// An item of a derive that is a record, with the fields of its entity's list.
pub(super) fn listed(
    entity: &'static EntityDesc,
    names: &Names,
    components: &mut Components,
) -> Json {
    record_reference(entity, RelatedRoute::List, names, components)
}

/// The schema name of a route's records with included relations. With the suffix `Page` it names
/// the schema of their pages.
pub(super) fn output<'a>(
    endpoint: &Endpoint,
    records: &'a str,
    names: &Names,
    components: &mut Components,
) -> Cow<'a, str> {
    let Some(table) = endpoint.table.as_ref().filter(|_| endpoint.includes()) else {
        return records.into();
    };
    let name = format!("{records}Included");
    let schema = with_relations(
        table.desc,
        reference("schemas", records),
        MAX_DEPTH,
        names,
        components,
    );
    components.schemas.insert(name.clone(), schema);
    components
        .schemas
        .insert(format!("{name}Page"), schema::page(&name));
    name.into()
}

/// Records with their relations, to the given depth.
fn with_relations(
    desc: &'static EntityDesc,
    records: Json,
    depth: usize,
    names: &Names,
    components: &mut Components,
) -> Json {
    if depth == 0 || desc.relations.is_empty() {
        return records;
    }
    let mut properties = Map::new();
    for relation in desc.relations {
        let target = (relation.target)();
        let one = with_relations(
            target,
            record_reference(target, include::target_route(relation), names, components),
            depth - 1,
            names,
            components,
        );
        let member = match relation.link {
            Link::BelongsTo { .. } => {
                json!({ "anyOf": [one, { "type": "null" }], "description": "Present only if the relation is included." })
            }
            Link::HasMany { max, .. } => {
                let mut page = schema::page(target.name);
                page["properties"]["items"] =
                    json!({ "type": "array", "items": one, "maxItems": max });
                page["description"] = json!(
                    "Present only if the relation is included. `nextCursor` continues in the list of the other entity."
                );
                page
            }
        };
        properties.insert(relation.wire.to_owned(), member);
    }
    json!({ "allOf": [records, { "type": "object", "properties": properties }] })
}

/// The other entity's records, with the fields of that entity's `get` or `list`.
fn record_reference(
    target: &'static EntityDesc,
    related_route: RelatedRoute,
    names: &Names,
    components: &mut Components,
) -> Json {
    let name = names.schema(target).to_owned();
    components.entity(&name, target);
    let policy = related::policy(target, related_route);
    let Some(fields) = policy.output else {
        return reference("schemas", &name);
    };
    let route = if related_route == RelatedRoute::Get {
        "get"
    } else {
        "list"
    };
    let record = schema::record(target, |field: &FieldDesc| fields.contains(&field.name));
    reference(
        "schemas",
        &narrowed::name(&name, route, policy.shape, record, components),
    )
}
