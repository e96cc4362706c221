//! The victim's records, values of the same form that no record has, and the caller's own records.

use linchpin::entity::{EntityDesc, FieldDesc, Kind, PageArgs};
use linchpin::prelude::*;
use linchpin::resource::{Form, ListRequest, Outcome};
use serde_json::{Map, Value as Json, json};

use super::answers::request;
use super::{Known, OWN, Sweep, THEIRS};
use crate::server::Server;

/// A record of the victim with every optional field.
pub(super) async fn victim(
    s: &Server,
    sweep: &Sweep,
    base: &str,
    desc: &'static EntityDesc,
    n: usize,
) -> Known {
    let mut body = Map::new();
    for (i, field) in desc
        .fields
        .iter()
        .enumerate()
        .filter(|(_, f)| f.creatable())
    {
        body.insert(
            field.wire.to_owned(),
            sample(field, &format!("bobs{n}{i}{}", unique_text())),
        );
    }
    set_gate_key(desc, THEIRS, &mut body);
    let reply = request(
        s,
        &sweep.victim,
        "POST",
        base,
        &[],
        Some(&Json::Object(body)),
    )
    .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json().as_object().unwrap().clone()
}

/// Sets the reference to the record that determines the visibility of the new record.
fn set_gate_key(desc: &EntityDesc, what: &str, body: &mut Map<String, Json>) {
    for gate in desc.gates {
        body.insert(desc.fields[gate.field].wire.to_owned(), json!(what));
    }
}

/// A unique text of a fixed length.
pub(super) fn unique_text() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(100_000);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

fn sample(field: &FieldDesc, text: &str) -> Json {
    match field.kind {
        Kind::String => json!(text),
        Kind::Integer => json!(4711),
        Kind::Number => json!(47.5),
        Kind::Boolean => json!(true),
        Kind::Date => json!("2031-01-02T03:04:05.678Z"),
        Kind::Enum(desc) => json!(desc.variants[0]),
        Kind::StringArray => json!([text]),
        Kind::Items(fields) => {
            let members = fields
                .iter()
                .map(|f| (f.wire.to_owned(), sample(f, &format!("{text}{}", f.wire))));
            json!([Json::Object(members.collect())])
        }
        Kind::Json => json!([]),
    }
}

/// A record of the same form with values that no record has.
pub(super) fn missing_record(desc: &EntityDesc, template: &Known) -> Known {
    let mirrored_text = |text: &str| -> String {
        let mirror = |c: char| match c {
            '0'..='9' => char::from(b'9' - (c as u8 - b'0')),
            // Ids stay lower-case hexadecimal.
            'a'..='f' => char::from(b'f' - (c as u8 - b'a')),
            other => other,
        };
        text.chars().map(mirror).collect()
    };
    let mut out = template.clone();
    for field in desc.fields {
        match (field.kind, out.get_mut(field.wire)) {
            (Kind::String, Some(Json::String(text))) => *text = mirrored_text(text),
            (Kind::StringArray, Some(Json::Array(list))) => {
                for item in list {
                    *item = json!(mirrored_text(item.as_str().unwrap_or_default()));
                }
            }
            (Kind::Items(_), Some(Json::Array(items))) => {
                for text in items
                    .iter_mut()
                    .filter_map(Json::as_object_mut)
                    .flat_map(Map::values_mut)
                {
                    *text = json!(mirrored_text(text.as_str().unwrap_or_default()));
                }
            }
            (Kind::Integer, Some(value @ Json::Number(_))) => {
                *value = json!(value.as_i64().unwrap_or_default() + 1);
            }
            _ => {}
        }
    }
    out
}

/// All stored records, including deleted ones, as the application itself sees them.
pub(super) async fn all_records(
    s: &Server,
    desc: &'static EntityDesc,
) -> Vec<Box<[linchpin::Value]>> {
    let table = s.running().adapters().table(desc.storage_name).unwrap();
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageArgs {
            limit: Some(200),
            cursor,
            ..PageArgs::default()
        };
        let request = ListRequest {
            page,
            deleted: true,
            ..ListRequest::default()
        };
        let outcome = table
            .list(&Cx::system("look").at(s.now()), request, &Form::Records)
            .await
            .unwrap();
        let Outcome::Page { rows, next_cursor } = outcome else {
            panic!("a page")
        };
        all.extend(rows.records);
        let Some(next) = next_cursor else { return all };
        cursor = Some(next);
    }
}

/// The stored records of the victim.
pub(super) async fn victim_records(s: &Server, desc: &'static EntityDesc) -> Vec<String> {
    let theirs = all_records(s, desc)
        .await
        .into_iter()
        .filter(|record| is_theirs(desc, record));
    theirs.map(|record| format!("{record:?}")).collect()
}

/// Removes all records.
pub(super) async fn remove_all_records(s: &Server, desc: &'static EntityDesc) {
    purge(s, desc, |_| true).await;
}

async fn purge(
    s: &Server,
    desc: &'static EntityDesc,
    is_removed: impl Fn(&[linchpin::Value]) -> bool,
) {
    let table = s.running().adapters().table(desc.storage_name).unwrap();
    for record in all_records(s, desc).await {
        if is_removed(&record) {
            table
                .purge(&Cx::system("clean up"), record[desc.primary].clone())
                .await
                .unwrap();
        }
    }
}

/// Gives the caller exactly one record, regardless of earlier probes.
pub(super) async fn reset_caller_records(
    s: &Server,
    sweep: &Sweep,
    base: &str,
    desc: &'static EntityDesc,
) {
    purge(s, desc, |record| !is_theirs(desc, record)).await;
    if !sweep.caller.is_empty() {
        let own = desc
            .fields
            .iter()
            .filter(|f| f.creatable())
            .map(|f| (f.wire.to_owned(), sample(f, "own")));
        let mut own: Map<String, Json> = own.collect();
        if desc.fields.iter().any(|field| field.wire == "views") {
            own.insert("views".to_owned(), json!(5));
        }
        set_gate_key(desc, OWN, &mut own);
        assert_eq!(
            request(
                s,
                &sweep.caller,
                "POST",
                base,
                &[],
                Some(&Json::Object(own))
            )
            .await
            .status,
            201
        );
    }
}

/// Whether a record is the victim's.
pub(super) fn is_theirs(desc: &EntityDesc, record: &[linchpin::Value]) -> bool {
    let (field, owner) = match (desc.tenant, desc.scope.first()) {
        (Some(tenant), _) if matches!(desc.fields[tenant.field].kind, Kind::Integer) => {
            return record[tenant.field] == linchpin::Value::Int(2);
        }
        (Some(tenant), _) => (tenant.field, "t2"),
        (None, Some(scope)) => (scope.field, "bob"),
        (None, None) if !desc.gates.is_empty() => (desc.gates[0].field, THEIRS),
        (None, None) => panic!("`{}` belongs to no caller", desc.name),
    };
    record[field] == linchpin::Value::Text(owner.to_owned())
}
