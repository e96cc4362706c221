//! Effects of a policy on the document: fewer members in requests and responses, and the policy's
//! own summary, description and tags.

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use super::{Components, names, schema};
use crate::entity::FieldDesc;
use crate::http::{Action, Endpoint};
use crate::operation::Answer;

/// The name of the schema of a create or update body.
pub(super) fn input(endpoint: &Endpoint, entity: &str, components: &mut Components) -> String {
    let suffix = names::pascal(&endpoint.name);
    let (Some(fields), Some(table)) = (endpoint.policy.input, &endpoint.table) else {
        return format!("{entity}{suffix}");
    };
    let keep = |field: &FieldDesc| fields.contains(&field.name);
    let schema = match endpoint.action {
        Action::Create => schema::create(table.desc, keep),
        _ => schema::update(table.desc, keep),
    };
    let name = format!("{entity}{suffix}Input");
    components.schemas.insert(name.clone(), schema);
    name
}

/// The schema name of a route's records. With the suffix `Page` it names the schema of their pages.
pub(super) fn output<'a>(
    endpoint: &Endpoint,
    entity: &'a str,
    components: &mut Components,
) -> Cow<'a, str> {
    let (fields, Some(table)) = (endpoint.policy.output, &endpoint.table) else {
        return entity.into();
    };
    if fields.is_none() && (endpoint.policy.once.is_empty() || wraps(endpoint)) {
        return entity.into();
    }
    let pages = match endpoint.action {
        Action::Create | Action::Get | Action::Update => false,
        Action::List => true,
        Action::Operation(spec, _) if spec.kind.answers().is_some() => return entity.into(),
        Action::Operation(spec, _) => match spec.kind.returns() {
            Answer::Page => true,
            Answer::Record
            | Answer::RecordOrNull
            | Answer::List
            | Answer::Records
            | Answer::Upserted { .. } => false,
            _ => return entity.into(),
        },
        Action::Delete | Action::Extra(_) | Action::Plugin(_) => return entity.into(),
    };
    let mut record = schema::record(table.desc, |field| {
        fields.is_none_or(|fields| fields.contains(&field.name))
    });
    if !wraps(endpoint) {
        once(endpoint, &mut record);
    }
    let name = name(
        entity,
        &endpoint.name,
        endpoint.policy.shape,
        record,
        components,
    );
    if pages {
        components
            .schemas
            .insert(format!("{name}Page"), schema::page(&name));
    }
    name.into()
}

/// Adds the schema of a route's records, under the name of the projection, or of the route if there
/// is no projection or its name is used for other fields.
pub(super) fn name(
    entity: &str,
    route: &str,
    projection: Option<&str>,
    record: Json,
    components: &mut Components,
) -> String {
    let shared = projection.map(|name| {
        if name.starts_with(entity) {
            format!("{name}Record")
        } else {
            format!("{entity}{name}Record")
        }
    });
    let is_free_or_same = |name: &String| {
        components
            .schemas
            .get(name)
            .is_none_or(|other| *other == record)
    };
    let name = shared
        .filter(is_free_or_same)
        .unwrap_or_else(|| format!("{entity}{}Record", names::pascal(route)));
    components.schemas.insert(name.clone(), record);
    name
}

/// Whether the record is nested in the response.
fn wraps(endpoint: &Endpoint) -> bool {
    matches!(endpoint.action, Action::Operation(spec, _) if spec.kind.returns() == Answer::Upserted { wrapped: true })
}

/// Adds the one-time members of the response.
pub(super) fn once(endpoint: &Endpoint, answer: &mut Json) {
    for field in endpoint.policy.once {
        let mut member = schema::input(field);
        member.insert("readOnly".to_owned(), json!(true));
        member.insert(
            "description".to_owned(),
            json!("Only in the response of this call; no later response contains it."),
        );
        answer["properties"][field.wire] = Json::Object(member);
        // A repetition with the same idempotency key returns no one-time members.
        if let (None, Some(required)) = (
            endpoint.policy.idempotency,
            answer["required"].as_array_mut(),
        ) {
            required.push(json!(field.wire));
        }
    }
}

/// Summary, description, tags and deprecation.
pub(super) fn describe(out: &mut Json, endpoint: &Endpoint) {
    if let Some(summary) = endpoint.policy.summary {
        out["summary"] = json!(summary);
    }
    if let Some(description) = endpoint.policy.description {
        out["description"] = json!(description);
    }
    if let Some(tags) = endpoint.policy.tags {
        out["tags"] = json!(tags);
    }
    if endpoint.policy.deprecated {
        out["deprecated"] = json!(true);
    }
}
