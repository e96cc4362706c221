//! The operation object of a route: its requests and responses.

use serde_json::{Map, Value as Json, json};

use super::errors::{field_of, header_map};
use super::names::{self, Names};
use super::schema::{self, Object, describe};
use super::{
    Components, Security, errors, extra, narrowed, parameters, plugin_routes, reference, related,
    repeat, requirements, security,
};
use crate::entity::{EntityDesc, Flags};
use crate::filter::Filter;
use crate::http::{Action, Endpoint, PageKey};
use crate::operation::{Answer, Method, OpSpec, Place, Whole};

/// A route, and the spelling of its path parameters in the document.
pub(super) struct Parts<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) wire_names: &'a [String],
    pub(super) security: &'a [Security],
}

/// Whether HEAD of a route has its own operation object.
pub(super) fn answers_head(endpoint: &Endpoint) -> bool {
    matches!(endpoint.action, Action::Operation(spec, _) if spec.kind.returns() == Answer::Exists)
}

/// The operation object of a route, or of its HEAD.
pub(super) fn operation(
    parts: &Parts<'_>,
    head: bool,
    names: &mut Names,
    components: &mut Components,
) -> Json {
    let endpoint = parts.endpoint;
    let by_path = if matches!(endpoint.action, Action::Operation(_, true)) {
        "_byPath"
    } else {
        ""
    };
    let id = names.operation(
        endpoint,
        &format!("{by_path}{}", if head { "_head" } else { "" }),
    );
    let mut out = json!({
        "operationId": id,
        "responses": responses((endpoint, parts.security), head, names, components),
        "security": security::security(endpoint, parts.security, &mut components.security),
        "x-linchpin-kind": kind(endpoint),
    });
    if let Action::Plugin(desc) = endpoint.action {
        out["tags"] = json!([desc.of]);
    }
    if let Some(table) = &endpoint.table {
        out["tags"] = json!([names.schema(table.desc)]);
    }
    document(&mut out, endpoint, names);
    narrowed::describe(&mut out, endpoint);
    let parameters = parameters::parameters(parts);
    if !parameters.is_empty() {
        out["parameters"] = Json::Array(parameters);
    }
    if let (false, Some(body)) = (head, request_body(endpoint, names, components)) {
        out["requestBody"] = body;
    }
    if let Some(filter) = filter(endpoint) {
        out["x-linchpin-filter"] = filter;
    }
    requirements::describe(&mut out, endpoint);
    let context: Vec<&str> = crate::http::context::needed(endpoint)
        .iter()
        .map(|desc| desc.name)
        .collect();
    if !context.is_empty() {
        out["x-linchpin-context"] = json!(context);
    }
    if let Some(name) = endpoint
        .policy
        .event
        .and_then(|event| event.name)
        .filter(|_| crate::http::idempotency::applies(endpoint))
    {
        out["x-linchpin-event"] = json!(name);
    }
    out
}

fn kind(endpoint: &Endpoint) -> &'static str {
    match endpoint.action {
        Action::Create => "create",
        Action::List => "list",
        Action::Get => "get",
        Action::Update => "update",
        Action::Delete => "delete",
        Action::Operation(spec, _) => spec.kind.name(),
        Action::Extra(_) => "route",
        Action::Plugin(desc) => desc.transport.kind(),
    }
}

/// The declared filter, unless it contains a field that clients must not know.
fn filter(endpoint: &Endpoint) -> Option<Json> {
    let Action::Operation(spec, _) = endpoint.action else {
        return None;
    };
    let desc = endpoint.table.as_ref()?.desc;
    let filter = Filter::from(spec.kind.filter()?);
    is_public(&filter, desc).then(|| filter.to_json(desc, spec.params))
}

fn is_public(filter: &Filter, desc: &EntityDesc) -> bool {
    match filter {
        Filter::All(list) | Filter::Any(list) => list.iter().all(|f| is_public(f, desc)),
        Filter::Cond { field, .. } | Filter::Item { field, .. } => desc
            .fields
            .get(*field)
            .is_some_and(|f| f.readable() && !f.flags.has(Flags::SENSITIVE)),
        // A declared filter never contains these.
        Filter::Linked(_) | Filter::Given(_) => false,
    }
}

/// The first paragraph of a doc comment becomes the summary, in one line. If the comment has
/// several paragraphs, the whole comment becomes the description.
fn document(out: &mut Json, endpoint: &Endpoint, names: &Names) {
    let entity = endpoint
        .table
        .as_ref()
        .map_or("record", |t| names.schema(t.desc));
    let doc = match endpoint.action {
        Action::Create => format!("Creates a record of {entity}."),
        Action::List => format!("Lists records of {entity}, a page at a time."),
        Action::Get => format!("Reads a record of {entity}."),
        Action::Update => format!("Changes a record of {entity}."),
        Action::Delete => format!("Removes a record of {entity}."),
        Action::Operation(spec, _) => spec.doc.trim().to_owned(),
        Action::Extra(spec) => spec.doc.trim().to_owned(),
        Action::Plugin(desc) => desc.doc.trim().to_owned(),
    };
    let paragraph = doc
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty());
    let summary = paragraph.collect::<Vec<_>>().join(" ");
    if doc.contains("\n\n") {
        out["description"] = json!(doc);
    }
    if !summary.is_empty() {
        out["summary"] = json!(summary);
    }
}

fn request_body(endpoint: &Endpoint, names: &Names, components: &mut Components) -> Option<Json> {
    match endpoint.action {
        Action::Plugin(desc) => return plugin_routes::request_body(desc, components),
        Action::Extra(spec) => return extra::request_body(endpoint, &spec, names, components),
        _ => {}
    }
    let table = endpoint.table.as_ref()?;
    let entity = names.schema(table.desc).to_owned();
    let (schema, required) = match endpoint.action {
        Action::Create | Action::Update => (narrowed::input(endpoint, &entity, components), true),
        Action::Operation(spec, _) => {
            let (schema, required) = input(endpoint, spec)?;
            let name = format!("{entity}{}Input", names::pascal(spec.name));
            components.schemas.insert(name.clone(), schema);
            (name, required)
        }
        _ => return None,
    };
    let content = json!({ "application/json": { "schema": reference("schemas", &schema) } });
    Some(json!({ "required": required, "content": content }))
}

/// The body of an operation, and whether it is required; `None` if there is none.
fn input(endpoint: &Endpoint, spec: &'static OpSpec) -> Option<(Json, bool)> {
    let whole = spec.params.iter().find_map(|p| match p.place {
        Place::Whole(whole) => endpoint
            .table
            .as_ref()
            .map(|table| (p.field_of(table.desc), whole)),
        _ => None,
    });
    if let Some((field, whole)) = whole {
        return Some(match whole {
            Whole::Items => (Json::Object(schema::value(field)), true),
            Whole::Item => (schema::item(field), true),
            Whole::Patch => {
                let mut members = schema::item(field);
                if let Some(object) = members.as_object_mut() {
                    object.remove("required");
                }
                (members, false)
            }
        });
    }
    let mut object = Object {
        properties: Map::new(),
        required: Vec::new(),
        closed: true,
        doc: "",
    };
    for param in spec
        .params
        .iter()
        .filter(|p| p.place == Place::Body && !parameters::in_path(endpoint, p))
    {
        let Some(field) = endpoint
            .table
            .as_ref()
            .map(|table| param.field_of(table.desc))
        else {
            continue;
        };
        let mut value = if param.element {
            schema::element(field)
        } else {
            schema::value(field)
        };
        if param.list {
            value = Map::from_iter([
                ("type".to_owned(), json!("array")),
                ("items".to_owned(), Json::Object(value)),
            ]);
        }
        if param.nullable {
            schema::nullable(&mut value);
        }
        let mut value = Json::Object(value);
        describe(&mut value, field.doc);
        schema::default(&mut value, param, field);
        object.properties.insert(param.name.to_owned(), value);
        if param.required {
            object.required.push(param.name);
        }
    }
    // A lookup that was redefined as POST has its paging members in the body.
    if !matches!(endpoint.method, Method::Get | Method::Delete) {
        for (name, key) in PageKey::of(spec) {
            object
                .properties
                .insert(name.to_owned(), parameters::page_schema(endpoint, key));
        }
    }
    if object.properties.is_empty() {
        return None;
    }
    let required = !object.required.is_empty();
    Some((object.finish(), required))
}

fn responses(
    (endpoint, security): (&Endpoint, &[Security]),
    head: bool,
    names: &Names,
    components: &mut Components,
) -> Json {
    let mut out = Map::new();
    if let Action::Extra(spec) = endpoint.action {
        extra::responses(endpoint, &spec, names, &mut out, components);
        errors::add((endpoint, security), head, &mut out, components);
        repeat::describe(endpoint, &mut out);
        return Json::Object(out);
    }
    if let Action::Plugin(desc) = endpoint.action {
        plugin_routes::responses(desc, &mut out);
        errors::add((endpoint, security), head, &mut out, components);
        return Json::Object(out);
    }
    let Some(table) = &endpoint.table else {
        return Json::Object(out);
    };
    let own = names.schema(table.desc);
    let narrowed = narrowed::output(endpoint, own, components);
    let entity = &*related::output(endpoint, &narrowed, names, components);
    let versioned = table.desc.version.is_some();
    let record = if versioned {
        header_map(&[("ETag", "ETag")])
    } else {
        header_map(&[])
    };
    let answer = |description: &str, headers: Json, schema: Json| json!({ "description": description, "headers": headers, "content": { "application/json": { "schema": schema } } });
    let (status, success) = match endpoint.action {
        Action::Create => {
            let mut headers = record;
            headers["Location"] = reference("headers", "Location");
            (
                "201",
                answer("The new record.", headers, reference("schemas", entity)),
            )
        }
        Action::List => (
            "200",
            answer(
                "A page of records.",
                header_map(&[]),
                reference("schemas", &format!("{entity}Page")),
            ),
        ),
        Action::Get => (
            "200",
            answer("The record.", record, reference("schemas", entity)),
        ),
        Action::Update => (
            "200",
            answer("The changed record.", record, reference("schemas", entity)),
        ),
        Action::Delete => (
            "204",
            json!({ "description": "Removed.", "headers": header_map(&[]) }),
        ),
        Action::Operation(spec, _) => {
            let output = format!("{own}{}Output", names::pascal(spec.name));
            let entity = spec
                .kind
                .answers()
                .map_or(entity, |other| names.schema(other));
            let schema = match spec.kind.returns() {
                Answer::Record => reference("schemas", entity),
                Answer::Page => reference("schemas", &format!("{entity}Page")),
                Answer::Derived => {
                    let items = spec
                        .kind
                        .derived()
                        .and_then(crate::operation::Derive::items);
                    let flat = spec.kind.derived().is_some_and(|derive| derive.flatten);
                    let item = match items {
                        Some((_, Some(_))) if flat => json!({ "type": "string" }),
                        Some((of, Some(field))) => Json::Object(schema::bare(&of.fields[field])),
                        Some((of, None)) => related::listed(of, names, components),
                        None => json!({}),
                    };
                    json!({ "type": "array", "items": item })
                }
                Answer::Numbers | Answer::Groups => {
                    let one = spec.kind.aggregate().map_or_else(
                        || json!({}),
                        |aggregate| schema::numbers(table.desc, aggregate),
                    );
                    components.schemas.insert(output.clone(), one);
                    let one = reference("schemas", &output);
                    if spec.kind.returns() == Answer::Groups {
                        json!({ "type": "array", "items": one })
                    } else {
                        one
                    }
                }
                Answer::List | Answer::Records => {
                    json!({ "type": "array", "items": reference("schemas", entity) })
                }
                Answer::Value => {
                    let schema = spec.kind.shape().map_or_else(|| json!({}), schema::shape);
                    components.schemas.insert(output.clone(), schema);
                    reference("schemas", &output)
                }
                Answer::Boolean => json!({ "type": "boolean" }),
                Answer::Count => json!({ "type": "integer", "minimum": 0 }),
                Answer::Items { field } => {
                    field_of(endpoint, field).map_or(json!({}), |f| Json::Object(schema::value(f)))
                }
                Answer::Item { field, .. } => {
                    field_of(endpoint, field).map_or(json!({}), schema::item)
                }
                Answer::Nothing | Answer::Upserted { wrapped: false } => {
                    reference("schemas", entity)
                }
                Answer::Upserted { wrapped: true } => {
                    let properties = json!({ "entity": reference("schemas", entity), "created": { "type": "boolean" } });
                    let required = ["entity", "created"];
                    let mut schema = json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false });
                    narrowed::once(endpoint, &mut schema);
                    components.schemas.insert(output.clone(), schema);
                    reference("schemas", &output)
                }
                Answer::RecordOrNull => {
                    let schema =
                        json!({ "anyOf": [reference("schemas", entity), { "type": "null" }] });
                    components.schemas.insert(output.clone(), schema);
                    reference("schemas", &output)
                }
                Answer::Exists => {
                    let properties = json!({ "exists": { "type": "boolean" } });
                    let schema = json!({ "type": "object", "required": ["exists"], "properties": properties, "additionalProperties": false });
                    components.schemas.insert(output.clone(), schema);
                    reference("schemas", &output)
                }
            };
            let (description, headers) = match spec.kind.returns() {
                Answer::Record if spec.kind.reads() => ("The record.", record),
                Answer::Record => ("The changed record.", record),
                Answer::RecordOrNull => ("The record, or null.", record),
                Answer::Page => ("A page of records.", header_map(&[])),
                Answer::Derived => ("The items.", header_map(&[])),
                Answer::Numbers => ("The numbers.", header_map(&[])),
                Answer::Groups => (
                    "The numbers of each group, in the order of the keys.",
                    header_map(&[]),
                ),
                Answer::List | Answer::Records => ("The records.", header_map(&[])),
                Answer::Value => ("The answer.", header_map(&[])),
                Answer::Boolean => ("Whether a record was changed.", header_map(&[])),
                Answer::Exists => ("Whether a record matches.", header_map(&[])),
                Answer::Count => ("How many records matched.", header_map(&[])),
                Answer::Nothing => ("Done.", header_map(&[])),
                Answer::Items { .. } => ("The items, in order.", header_map(&[])),
                Answer::Item { created: true, .. } => ("The new item.", header_map(&[])),
                Answer::Item { .. } => ("The changed item.", header_map(&[])),
                Answer::Upserted { .. } => ("The existing record.", record),
            };
            match spec.kind.returns() {
                Answer::Nothing => (
                    "204",
                    json!({ "description": description, "headers": headers }),
                ),
                Answer::Upserted { .. } => {
                    let mut headers_of_new = headers.clone();
                    headers_of_new["Location"] = reference("headers", "Location");
                    out.insert(
                        "201".to_owned(),
                        answer("The new record.", headers_of_new, schema.clone()),
                    );
                    ("200", answer(description, headers, schema))
                }
                Answer::Item { created: true, .. } => ("201", answer(description, headers, schema)),
                _ => ("200", answer(description, headers, schema)),
            }
        }
        Action::Extra(_) | Action::Plugin(_) => return Json::Object(out),
    };
    if head {
        out.insert(
            "200".to_owned(),
            json!({ "description": "There is one.", "headers": header_map(&[]) }),
        );
        out.insert(
            "404".to_owned(),
            json!({ "description": "There is none.", "headers": header_map(&[]) }),
        );
    } else {
        out.insert(status.to_owned(), success);
    }
    if parameters::answers_record(endpoint) && versioned && !endpoint.has_counters() {
        out.insert(
            "304".to_owned(),
            json!({ "description": "The record still has the `ETag` of `If-None-Match`.", "headers": header_map(&[("ETag", "ETag")]) }),
        );
    }
    errors::add((endpoint, security), head, &mut out, components);
    repeat::describe(endpoint, &mut out);
    Json::Object(out)
}
