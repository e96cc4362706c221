//! Idempotency keys and records of other callers do not affect the calls of a caller.

use linchpin::entity::{EntityDesc, Link};
use linchpin::http::{Action, Endpoint};
use serde_json::{Value as Json, json};

use super::Sweep;
use super::answers::{comparable_response, request, send};
use super::probes::{Request, forged, probes, push};
use super::records::{
    all_records, is_theirs, missing_record, reset_caller_records, unique_text, victim,
    victim_records,
};
use crate::server::{Reply, Server};

/// A swept route, and the path of its entity.
#[derive(Clone, Copy)]
pub(super) struct Swept<'a> {
    pub(super) s: &'a Server,
    pub(super) sweep: &'a Sweep,
    pub(super) endpoint: &'a Endpoint,
    pub(super) desc: &'static EntityDesc,
    pub(super) base: &'a str,
}

const KEY: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";

/// A route with idempotency: the victim has called it with a key, and the caller sends the same
/// call with the same key. The response must be that for an unused key and a missing record.
/// Returns whether the route was checked.
pub(super) async fn answers_are_not_replayed(route: Swept<'_>) -> bool {
    let Swept {
        s,
        sweep,
        endpoint,
        desc,
        base,
    } = route;
    let reads = match endpoint.action {
        Action::Get | Action::List => true,
        Action::Operation(spec, _) => spec.kind.reads(),
        _ => false,
    };
    if reads || endpoint.policy.idempotency.is_none() {
        return false;
    }
    let name = format!("{} {}", endpoint.method.as_str(), endpoint.path);
    // The same call, and a call about the same record with other values.
    for same in [true, false] {
        let theirs = victim(s, sweep, base, desc, 2).await;
        let missing = missing_record(desc, &theirs);
        let probe = &probes(endpoint, desc)[0];
        let with_key = |mut sent: Request, key: &str| {
            sent.headers.push((KEY, key.to_owned()));
            sent
        };
        let (key, fresh) = (
            format!("key-{}", unique_text()),
            format!("key-{}", unique_text()),
        );
        let sent = with_key(probe(&theirs, ""), &key);
        let first = as_victim(s, sweep, &sent).await;
        let again = as_victim(s, sweep, &sent).await;
        assert_eq!(
            (first.status, &first.body),
            (again.status, &again.body),
            "{name}"
        );
        assert_eq!(
            again.header(REPLAYED),
            "true",
            "{name}: a stored response exists and is replayed"
        );
        let before = victim_records(s, desc).await;
        reset_caller_records(s, sweep, base, desc).await;
        let real = send(
            s,
            sweep,
            &if same {
                sent
            } else {
                with_key(probe(&theirs, ""), &key)
            },
        )
        .await;
        assert!(real.headers.get(REPLAYED).is_none(), "{name}: {real:?}");
        assert!(
            !String::from_utf8_lossy(&real.body).contains("idempotency"),
            "{name}: {real:?}"
        );
        assert_eq!(
            victim_records(s, desc).await,
            before,
            "{name} changed a record of the victim"
        );
        // A unique across owners reveals that the victim's value is taken, so this response differs
        // from the response for a missing record.
        if same && real.status == 409 {
            continue;
        }
        reset_caller_records(s, sweep, base, desc).await;
        let none = send(s, sweep, &with_key(probe(&missing, ""), &fresh)).await;
        assert_eq!(
            comparable_response(&real, &theirs, "cursor"),
            comparable_response(&none, &missing, "cursor"),
            "{name}"
        );
    }
    true
}

/// A route with `include`: the caller's record refers to a record of the victim, or the other way
/// round. Returns whether the route was checked.
pub(super) async fn included_records_are_ones_own(route: Swept<'_>) -> bool {
    let Swept {
        s,
        sweep,
        endpoint,
        desc,
        base,
    } = route;
    let is_get = matches!(endpoint.action, Action::Get);
    if !endpoint.includes()
        || !(is_get || matches!(endpoint.action, Action::List))
        || sweep.caller.is_empty()
    {
        return false;
    }
    for relation in desc.relations {
        // The relations of the fixture refer to their own entity.
        let theirs = victim(s, sweep, base, desc, 3).await;
        let missing = missing_record(desc, &theirs);
        let mut answers = Vec::new();
        for known in [&theirs, &missing] {
            reset_caller_records(s, sweep, base, desc).await;
            let own = own_path(s, base, desc).await;
            match relation.link {
                Link::BelongsTo { key, .. } => {
                    let body = json!({desc.fields[key].wire: known["id"]});
                    assert_eq!(
                        request(s, &sweep.caller, "PATCH", &own, &[], Some(&body))
                            .await
                            .status,
                        200
                    );
                }
                Link::HasMany { key, .. } => {
                    // The victim's record refers to the caller's record. For the comparison, it
                    // refers to a missing record.
                    let real = known["id"] == theirs["id"];
                    let named = if real {
                        own.rsplit('/').next().unwrap().to_owned()
                    } else {
                        "nobody".to_owned()
                    };
                    let path = format!("{base}/{}", theirs["id"].as_str().unwrap());
                    let field = desc.fields.iter().find(|field| field.name == key).unwrap();
                    let body = json!({field.wire: named});
                    assert_eq!(
                        request(s, &sweep.victim, "PATCH", &path, &[], Some(&body))
                            .await
                            .status,
                        200
                    );
                }
            }
            for include in [relation.wire.to_owned(), format!("{0}.{0}", relation.wire)] {
                let mut query = String::new();
                push(&mut query, "include", Some(&json!(include)));
                let path = if is_get { &own } else { base };
                let reply = request(
                    s,
                    &sweep.caller,
                    "GET",
                    &format!("{path}{query}"),
                    &[],
                    None,
                )
                .await;
                assert_eq!(reply.status, 200, "{reply:?}");
                let body = reply.json();
                let record = if is_get { &body } else { &body["items"][0] };
                let related = &record[relation.wire];
                let nothing = match relation.link {
                    Link::BelongsTo { .. } => {
                        related.is_null() && record.get(relation.wire).is_some()
                    }
                    Link::HasMany { .. } => related["items"] == json!([]),
                };
                assert!(nothing, "{path} shows {include} of another caller: {body}");
                answers.push((
                    known["id"].clone(),
                    include,
                    comparable_response(&reply, known, &forged("cursor")),
                ));
            }
        }
        let answers_for = |id: &Json| {
            answers
                .iter()
                .filter(|(known_id, ..)| known_id == id)
                .map(|(_, i, text)| (i.clone(), text.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            answers_for(&theirs["id"]),
            answers_for(&missing["id"]),
            "{} of {base}",
            relation.wire
        );
    }
    true
}

/// A `derive` that follows references: the caller's record refers to a record of the victim.
/// Returns whether the route was checked.
pub(super) async fn derived_records_are_ones_own(route: Swept<'_>) -> bool {
    let Swept {
        s,
        sweep,
        endpoint,
        desc,
        base,
    } = route;
    let Action::Operation(spec, _) = endpoint.action else {
        return false;
    };
    if sweep.caller.is_empty() {
        return false;
    }
    let parts = spec.kind.derived().map_or(&[][..], |derive| derive.sources);
    let on: Vec<usize> = parts
        .iter()
        .filter_map(|part| Some(part.through?.on))
        .collect();
    for field in &on {
        let theirs = victim(s, sweep, base, desc, 4).await;
        let missing = missing_record(desc, &theirs);
        let mut answers = Vec::new();
        for known in [&theirs, &missing] {
            reset_caller_records(s, sweep, base, desc).await;
            let own = own_path(s, base, desc).await;
            let body = json!({desc.fields[*field].wire: known["id"]});
            let own = request(s, &sweep.caller, "PATCH", &own, &[], Some(&body)).await;
            assert_eq!(own.status, 200, "{own:?}");
            let sent = probes(endpoint, desc)[0](own.json().as_object().unwrap(), "");
            let reply = send(s, sweep, &sent).await;
            assert_eq!(reply.status, 200, "{sent:?} {reply:?}");
            // The caller's record is in the response through another source; the record that it
            // refers to is not.
            assert_eq!(
                reply.json().as_array().map(Vec::len),
                Some(1),
                "{sent:?} {reply:?}"
            );
            answers.push(comparable_response(&reply, known, "cursor"));
        }
        assert_eq!(
            answers[0], answers[1],
            "{} reveals a record that {} refers to",
            endpoint.path, desc.fields[*field].wire
        );
    }
    !on.is_empty()
}

async fn as_victim(s: &Server, sweep: &Sweep, sent: &Request) -> Reply {
    let victim_sweep = Sweep {
        caller: sweep.victim.clone(),
        victim: sweep.victim.clone(),
        paths: sweep.paths,
    };
    send(s, &victim_sweep, sent).await
}

/// The path of the caller's only record.
async fn own_path(s: &Server, base: &str, desc: &'static EntityDesc) -> String {
    let all = all_records(s, desc).await;
    let own = all.iter().find(|record| !is_theirs(desc, record)).unwrap();
    let linchpin::Value::Text(id) = &own[desc.primary] else {
        panic!("a text")
    };
    format!("{base}/{id}")
}
