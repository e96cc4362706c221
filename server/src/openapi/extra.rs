//! Routes with custom functions in the document: their request and response types.

use serde_json::{Map, Value as Json, json};

use super::errors::header_map;
use super::names::{self, Names};
use super::schema::{self, Object};
use super::{Components, reference};
use crate::http::{Content, ContentSchema, Endpoint, ExtraRouteSpec, contents_of};
use crate::operation::Shape;

/// The request body of the function, if its last argument has one.
pub(super) fn request_body(
    endpoint: &Endpoint,
    spec: &ExtraRouteSpec,
    names: &Names,
    components: &mut Components,
) -> Option<Json> {
    let body = contents_of(spec).body?;
    let schema = match body.schema {
        // serde requires every member that is not optional, even a member that declares a default.
        ContentSchema::Shape(Shape::Object(fields)) => {
            let mut object = Object::new(fields.iter(), schema::input);
            object.required = fields
                .iter()
                .filter(|field| !field.optional)
                .map(|field| field.wire)
                .collect();
            register_schema(
                "Input",
                object.finish(),
                (endpoint, spec, names),
                components,
            )
        }
        _ => described(&body, "Input", (endpoint, spec, names), components),
    };
    Some(json!({ "required": !body.optional, "content": { body.media: { "schema": schema } } }))
}

/// The responses: 200 with the result type if the type always has this status, and `default` for
/// all others.
pub(super) fn responses(
    endpoint: &Endpoint,
    spec: &ExtraRouteSpec,
    names: &Names,
    out: &mut Map<String, Json>,
    components: &mut Components,
) {
    let contents = contents_of(spec);
    let mut other =
        json!({ "description": "The response of the function.", "headers": header_map(&[]) });
    if let Some(answer) = contents.answer {
        let schema = described(&answer, "Output", (endpoint, spec, names), components);
        let content = json!({ answer.media: { "schema": schema } });
        if contents.ok {
            out.insert("200".to_owned(), json!({ "description": "The answer.", "headers": header_map(&[]), "content": content }));
        } else {
            other["content"] = content;
        }
    }
    out.insert("default".to_owned(), other);
}

fn described(
    content: &Content,
    suffix: &str,
    context: (&Endpoint, &ExtraRouteSpec, &Names),
    components: &mut Components,
) -> Json {
    let record = |desc| reference("schemas", context.2.schema(desc));
    match content.schema {
        ContentSchema::Any => json!({}),
        ContentSchema::Text => json!({ "type": "string" }),
        ContentSchema::Binary => json!({ "type": "string", "format": "binary" }),
        ContentSchema::Shape(shape) => {
            register_schema(suffix, schema::shape(shape), context, components)
        }
        // A record of another app has no schema here.
        ContentSchema::Record(desc) | ContentSchema::Records(desc) if !context.2.has(desc) => {
            json!({})
        }
        ContentSchema::Record(desc) => record(desc),
        ContentSchema::Records(desc) => json!({ "type": "array", "items": record(desc) }),
    }
}

/// Registers a schema under the name of the route.
fn register_schema(
    suffix: &str,
    schema: Json,
    (endpoint, spec, names): (&Endpoint, &ExtraRouteSpec, &Names),
    components: &mut Components,
) -> Json {
    let entity = endpoint
        .table
        .as_ref()
        .map_or("", |table| names.schema(table.desc));
    let name = format!("{entity}{}{suffix}", names::pascal(spec.name));
    components.schemas.insert(name.clone(), schema);
    reference("schemas", &name)
}
