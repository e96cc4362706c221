//! Routes of plugins in the document.

use serde_json::{Map, Value as Json, json};

use super::errors::header_map;
use super::schema::{self, Object};
use super::{Components, names, reference};
use crate::entity::FieldDesc;
use crate::http::{AnswerDesc, RouteDesc, Transport};
use crate::operation::Shape;

/// The request body. The schema of a JSON body gets a name of its own.
pub(super) fn request_body(desc: &RouteDesc, components: &mut Components) -> Option<Json> {
    if desc.form {
        let mut object = Object::new(desc.query.iter(), schema::bare);
        object.required = desc
            .query
            .iter()
            .filter(|f| !f.optional)
            .map(|f| f.wire)
            .collect();
        object.closed = !desc.lenient;
        let required = !object.required.is_empty();
        return Some(
            json!({ "required": required, "content": { "application/x-www-form-urlencoded": { "schema": object.finish() } } }),
        );
    }
    if desc.raw {
        // The body has any media type, and may be binary.
        return Some(json!({ "required": false, "content": { "*/*": {} } }));
    }
    desc.body?;
    let fields = desc.body_fields();
    let mut object = Object::new(fields.iter(), schema::input);
    if !desc.partial {
        object.required = fields
            .iter()
            .filter(|f| f.is_required())
            .map(|f| f.wire)
            .collect();
    }
    object.closed = true;
    let required = !object.required.is_empty();
    let name = format!(
        "{}{}Input",
        names::pascal(desc.of),
        names::pascal(desc.name)
    );
    components.schemas.insert(name.clone(), object.finish());
    let content = json!({ "application/json": { "schema": reference("schemas", &name) } });
    Some(json!({ "required": required, "content": content }))
}

/// The successful responses; a status with several bodies gets a schema with alternatives.
pub(super) fn responses(desc: &RouteDesc, out: &mut Map<String, Json>) {
    match desc.transport {
        Transport::Whole => {}
        Transport::Stream(media) => {
            let content =
                Map::from_iter([(media.to_owned(), json!({ "schema": { "type": "string" } }))]);
            out.insert(
                "200".to_owned(),
                json!({ "description": doc(desc, 200, "A stream."), "headers": header_map(&[]), "content": content }),
            );
        }
        Transport::Upgrade(protocol) => {
            let mut headers = header_map(&[]);
            headers["Upgrade"] = json!({ "schema": { "const": protocol }, "required": true });
            let description = doc(desc, 101, "The connection changes to the protocol.");
            out.insert(
                "101".to_owned(),
                json!({ "description": description, "headers": headers }),
            );
        }
    }
    for answer in desc.answers {
        let status = answer.status.to_string();
        let same_status: Vec<&AnswerDesc> = desc
            .answers
            .iter()
            .filter(|other| other.status == answer.status)
            .collect();
        if out.contains_key(&status) {
            continue;
        }
        let text = same_status
            .iter()
            .map(|one| one.doc)
            .collect::<Vec<_>>()
            .join(" Or: ");
        let mut response = json!({ "description": text, "headers": header_map(&[]) });
        let mut bodies: Vec<Json> = same_status
            .iter()
            .filter(|one| !matches!(one.shape, Shape::Nothing))
            .map(|one| body(one))
            .collect();
        let schema = if bodies.len() > 1 {
            Some(json!({ "anyOf": bodies }))
        } else {
            bodies.pop()
        };
        if let Some(schema) = schema {
            response["content"] = json!({ "application/json": { "schema": schema } });
        }
        out.insert(status, response);
    }
}

/// The declared text of a status.
fn doc(desc: &RouteDesc, status: u16, default: &'static str) -> &'static str {
    let declared = desc.answers.iter().find(|one| one.status == status);
    declared.map_or(default, |answer| answer.doc)
}

fn body(answer: &AnswerDesc) -> Json {
    let Shape::Object(fields) = answer.shape else {
        return schema::shape(answer.shape);
    };
    if !answer.sparse {
        return schema::shape(answer.shape);
    }
    let mut object = Object::new(fields.iter(), |field| {
        schema::input(&FieldDesc {
            optional: false,
            ..*field
        })
    });
    object.required = fields
        .iter()
        .filter(|f| !f.optional)
        .map(|f| f.wire)
        .collect();
    object.closed = true;
    object.finish()
}

/// The query parameters of a route, and the request headers that it reads.
pub(super) fn parameters(desc: &RouteDesc) -> Vec<Json> {
    let parameter = |field: &FieldDesc| {
        let mut out = json!({ "name": field.wire, "in": "query", "schema": schema::bare(field), "required": !field.optional });
        schema::describe(&mut out, field.doc);
        out
    };
    let header = |(name, doc): &(&str, &str)| json!({ "name": name, "in": "header", "required": false, "description": doc, "schema": { "type": "string" } });
    let query = if desc.form { &[] } else { desc.query };
    query
        .iter()
        .map(parameter)
        .chain(desc.reads.iter().map(header))
        .collect()
}
