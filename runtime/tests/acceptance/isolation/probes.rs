//! Requests about a record, for each route.

use linchpin::entity::{EntityDesc, FieldDesc, Flags, Kind};
use linchpin::http::{Action, Endpoint};
use linchpin::operation::{OpSpec, ParamSpec, Place, Whole};
use serde_json::{Map, Value as Json, json};

use super::answers::request;
use super::records::unique_text;
use super::{Known, Sweep};
use crate::server::Server;

/// A request that names a record.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<Json>,
}

pub(super) type Probe = Box<dyn Fn(&Known, &str) -> Request>;
type Change = Box<dyn Fn(&mut Request, &Known, &str)>;

/// Requests about a record: by path, parameters, filters, cursors, headers and bodies.
pub(super) fn probes(endpoint: &Endpoint, desc: &'static EntityDesc) -> Vec<Probe> {
    let (method, path) = (endpoint.method.as_str(), endpoint.path.clone());
    let plain = {
        let endpoint = endpoint.clone();
        move |known: &Known| {
            let mut request = Request {
                method,
                path: fill(&path, desc, &endpoint, known),
                ..Request::default()
            };
            match endpoint.action {
                Action::Create => request.body = Some(body(desc, known, FieldDesc::creatable)),
                Action::Update => request.body = Some(body(desc, known, FieldDesc::updatable)),
                Action::Operation(spec, in_path) => {
                    operation(spec, in_path, desc, known, &mut request);
                }
                _ => {}
            }
            request
        }
    };
    let mut out: Vec<Probe> = Vec::new();
    let add = |out: &mut Vec<Probe>, change: Change| {
        let plain = plain.clone();
        out.push(Box::new(move |known, cursor| {
            let mut request = plain(known);
            change(&mut request, known, cursor);
            request
        }));
    };
    add(&mut out, Box::new(|_, _, _| {}));
    // Headers: a version, and a tenant and an owner that are not those of the caller.
    for name in ["if-match", "if-none-match"] {
        add(
            &mut out,
            Box::new(move |request, known, _| {
                if let Some(version) = known.get("version") {
                    request.headers.push((name, format!("\"{version}\"")));
                }
            }),
        );
    }
    for (name, wire) in [
        ("x-tenant-id", "tenantId"),
        ("x-tenant", "tenantId"),
        ("x-user-id", "ownerId"),
        ("x-forwarded-user", "ownerId"),
    ] {
        add(
            &mut out,
            Box::new(move |request, known, _| {
                request.headers.push((
                    name,
                    known
                        .get(wire)
                        .and_then(Json::as_str)
                        .unwrap_or("somebody")
                        .to_owned(),
                ));
            }),
        );
    }
    // Bodies with one more value of the record, for example its owner or another key.
    for field in desc.fields.iter().filter(|f| f.readable()) {
        add(
            &mut out,
            Box::new(move |request, known, _| {
                if let Some(Json::Object(body)) = &mut request.body
                    && !reveals_taken_value(desc, field)
                {
                    body.insert(
                        field.wire.to_owned(),
                        known.get(field.wire).cloned().unwrap_or(Json::Null),
                    );
                }
            }),
        );
        // Unknown parameters.
        add(
            &mut out,
            Box::new(move |request, known, _| {
                push(&mut request.query, field.wire, known.get(field.wire));
            }),
        );
    }
    add(
        &mut out,
        Box::new(|request, known, _| push(&mut request.query, "actor.id", known.get("ownerId"))),
    );
    add(
        &mut out,
        Box::new(|request, _, _| push(&mut request.query, "includeDeleted", Some(&json!("true")))),
    );
    add(
        &mut out,
        Box::new(|request, _, cursor| push(&mut request.query, "cursor", Some(&json!(cursor)))),
    );
    if endpoint.includes() {
        for relation in desc.relations {
            // The relations of the fixture lead to their own entity.
            for path in [relation.wire.to_owned(), format!("{0}.{0}", relation.wire)] {
                add(
                    &mut out,
                    Box::new(move |request, _, _| {
                        push(&mut request.query, "include", Some(&json!(path)));
                    }),
                );
            }
        }
    }
    match endpoint.action {
        Action::List => {
            for field in desc
                .fields
                .iter()
                .filter(|f| f.readable() && f.flags.has(Flags::FILTERABLE.or(Flags::PRIMARY)))
            {
                for operator in [
                    "",
                    "[ne]",
                    "[gt]",
                    "[gte]",
                    "[lt]",
                    "[lte]",
                    "[in]",
                    "[nin]",
                    "[contains]",
                    "[has]",
                ] {
                    // These operators compare the value only with values of the caller's own
                    // records. The responses may differ, but they do not reveal whether the value
                    // exists.
                    if matches!(operator, "[gt]" | "[gte]" | "[lt]" | "[lte]") {
                        continue;
                    }
                    add(
                        &mut out,
                        Box::new(move |request, known, _| {
                            push(
                                &mut request.query,
                                &format!("{}{operator}", field.wire),
                                known.get(field.wire),
                            );
                        }),
                    );
                }
            }
        }
        Action::Operation(..) if endpoint.method.as_str() == "GET" => {}
        _ => {
            // A body on a route without one, and an invalid body.
            add(
                &mut out,
                Box::new(|request, known, _| request.body = Some(Json::Object(known.clone()))),
            );
            add(
                &mut out,
                Box::new(|request, _, _| request.body = Some(json!([1]))),
            );
        }
    }
    // The first request again, after all others.
    add(&mut out, Box::new(|_, _, _| {}));
    out
}

pub(super) fn push(query: &mut String, name: &str, value: Option<&Json>) {
    let Some(value) = value.filter(|v| !v.is_null()) else {
        return;
    };
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Array(list) => list
            .first()
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned(),
        other => other.to_string(),
    };
    let text: String = text
        .bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"-_.".contains(&b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect();
    query.push_str(if query.is_empty() { "?" } else { "&" });
    query.push_str(&format!("{name}={text}"));
}

fn body(desc: &'static EntityDesc, known: &Known, wanted: impl Fn(&FieldDesc) -> bool) -> Json {
    let value = |f: &FieldDesc| {
        if reveals_taken_value(desc, f) {
            Some(json!(format!("fresh{}", unique_text())))
        } else {
            known.get(f.wire).cloned()
        }
    };
    let members = desc
        .fields
        .iter()
        .filter(|f| wanted(f))
        .filter_map(|f| Some((f.wire.to_owned(), value(f)?)));
    Json::Object(members.collect())
}

/// Whether a global unique reveals that a value is taken: a refused create names the field.
fn reveals_taken_value(desc: &EntityDesc, field: &FieldDesc) -> bool {
    let holds = |u: &linchpin::entity::UniqueDesc| {
        u.fields.iter().any(|f| desc.fields[*f].wire == field.wire)
    };
    desc.uniques
        .iter()
        .any(|u| (u.global || desc.tenant.is_none()) && holds(u))
}

/// The value of a parameter: the value of the field that the parameter is compared with or written
/// to.
fn argument(param: &ParamSpec, desc: &EntityDesc, known: &Known) -> Json {
    let field = param.field_of(desc);
    let value = known.get(field.wire).cloned().unwrap_or(Json::Null);
    match (param.list, field.kind, value) {
        (true, Kind::StringArray, list) => list,
        (true, _, one) => json!([one]),
        (false, Kind::StringArray, Json::Array(list)) if !is_whole(param, field) => {
            list.first().cloned().unwrap_or(json!("none"))
        }
        (_, _, value) => value,
    }
}

/// Whether the value of a parameter is a whole list of strings, as for `array_set`. Such a
/// parameter has the same name as the field.
fn is_whole(param: &ParamSpec, field: &FieldDesc) -> bool {
    param.name == field.wire
}

fn operation(
    spec: &'static OpSpec,
    in_path: bool,
    desc: &'static EntityDesc,
    known: &Known,
    request: &mut Request,
) {
    let mut members = Map::new();
    let mut whole_body = None;
    for param in spec.params {
        let creates =
            spec.kind.name() == "upsert" && reveals_taken_value(desc, param.field_of(desc));
        let value = if creates {
            json!(format!("fresh{}", unique_text()))
        } else {
            argument(param, desc, known)
        };
        match param.place {
            Place::Body => drop(members.insert(param.name.to_owned(), value)),
            Place::Query => push(&mut request.query, param.name, Some(&value)),
            Place::Segment if !in_path => push(&mut request.query, param.name, Some(&value)),
            Place::Segment | Place::Id => {}
            Place::Whole(Whole::Items) => whole_body = Some(value),
            Place::Whole(Whole::Item) => {
                whole_body = Some(value.get(0).cloned().unwrap_or_else(|| json!({})));
            }
            Place::Whole(Whole::Patch) => {
                let mut item = value.get(0).cloned().unwrap_or_else(|| json!({}));
                // The member that identifies an item never changes.
                item.as_object_mut().unwrap().remove("id");
                whole_body = Some(item);
            }
        }
    }
    if !matches!(request.method, "GET" | "DELETE") {
        request.body = Some(whole_body.unwrap_or(Json::Object(members)));
    }
}

/// The path with the record's values.
fn fill(path: &str, desc: &EntityDesc, endpoint: &Endpoint, known: &Known) -> String {
    let value = |name: &str| -> String {
        let field = match endpoint.action {
            Action::Operation(spec, _) => spec
                .params
                .iter()
                .find(|p| p.name == name)
                .map(|p| p.field_of(desc)),
            _ => None,
        };
        let wire = field.unwrap_or(&desc.fields[desc.primary]).wire;
        // The id of the first item of a list.
        let text = known
            .get(wire)
            .and_then(|value| value.as_str().or_else(|| value[0]["id"].as_str()));
        text.unwrap_or("none").to_owned()
    };
    let segments = path.split('/').map(|part| {
        match part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
            Some(name) => value(name),
            None => part.to_owned(),
        }
    });
    segments.collect::<Vec<_>>().join("/")
}

/// A cursor between the victim's records on this route; any text if the route has no pages.
pub(super) async fn cursor(
    s: &Server,
    sweep: &Sweep,
    endpoint: &Endpoint,
    theirs: &Known,
) -> String {
    let desc = endpoint.table.as_ref().unwrap().desc;
    let mut probe = Request {
        method: endpoint.method.as_str(),
        path: endpoint.path.clone(),
        ..Request::default()
    };
    if let Action::Operation(spec, in_path) = endpoint.action {
        operation(spec, in_path, desc, theirs, &mut probe);
    }
    if probe.method == "GET" {
        push(&mut probe.query, "limit", Some(&json!("1")));
        let path = format!("{}{}", probe.path, probe.query);
        let reply = request(s, &sweep.victim, "GET", &path, &[], None).await;
        if let Some(cursor) = reply
            .status
            .eq(&200)
            .then(|| reply.json()["nextCursor"].as_str().map(str::to_owned))
            .flatten()
        {
            return cursor;
        }
    }
    "bm90IGEgY3Vyc29y".to_owned()
}

/// A cursor without a valid signature.
pub(super) fn forged(cursor: &str) -> String {
    let another_letter = |c: char| if c == 'A' { 'B' } else { 'A' };
    cursor
        .chars()
        .enumerate()
        .map(|(i, c)| if i % 5 == 2 { another_letter(c) } else { c })
        .collect()
}
