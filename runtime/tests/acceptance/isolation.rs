//! The isolation sweep: whatever an actor asks about somebody else's records, the answer is that for records nobody has.
//!
//! It is made from the routes an app mounts and the parameters they declare, so a route added later is swept without anyone
//! remembering. Each probe is sent twice: once with what the victim's record holds, once with values of the same shape that
//! no record holds. After the names of both are made equal, so must the answers be, byte for byte; and the victim's records
//! must be as before.

mod crossing;

use std::collections::BTreeSet;

use linchpin::entity::{EntityDesc, FieldDesc, Flags, Kind, PageArgs};
use linchpin::http::{Action, Endpoint, endpoints};
use linchpin::operation::{OpSpec, ParamSpec, Place, Whole};
use linchpin::prelude::*;
use linchpin::resource::{Form, ListRequest, Outcome};
use serde_json::{Map, Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};
use crate::visibility_fixture::SEEN;

cases!(&crate::visibility_fixture::SEEN => 
    other_tenants_do_not_exist, other_owners_do_not_exist, records_of_tenants_do_not_exist_for_the_public,
    records_behind_gates_do_not_exist);

/// Who asks, whose records are asked about, and below which paths.
struct Sweep {
    asking: String,
    victim: String,
    paths: &'static [&'static str],
}

async fn other_tenants_do_not_exist(s: &Server) {
    let sweep = Sweep { asking: s.token_in("eve", "t1"), victim: s.token_in("bob", "t2"), paths: &["/accounts", "/sheets"] };
    run(s, &sweep, 2).await;
}

async fn other_owners_do_not_exist(s: &Server) {
    run(s, &Sweep { asking: s.token("eve", &[]), victim: s.token("bob", &[]), paths: &["/tasks"] }, 1).await;
}

async fn records_of_tenants_do_not_exist_for_the_public(s: &Server) {
    run(s, &Sweep { asking: String::new(), victim: s.token_in("bob", "t2"), paths: &["/sheets"] }, 1).await;
}

/// Nothing in the record says whose it is: what it names does.
async fn records_behind_gates_do_not_exist(s: &Server) {
    let sweep = Sweep { asking: s.token("eve", &[]), victim: s.token("bob", &[]), paths: &["/slips"] };
    for (token, vault) in [(&sweep.asking, OWN), (&sweep.victim, THEIRS)] {
        assert_eq!(request(s, token, "POST", "/vaults", &[], Some(&json!({"id": vault}))).await.status, 201);
    }
    run(s, &sweep, 1).await;
}

/// What the records of the caller and of the victim name, where that decides who sees them.
const OWN: &str = "vault-of-eve";
const THEIRS: &str = "vault-of-bob";

/// A record by wire name, as a client knows it: somebody's, or nobody's of the same shape.
type Known = Map<String, Json>;

async fn run(s: &Server, sweep: &Sweep, entities: usize) {
    let mounted = endpoints(&SEEN, "/", s.running().adapters());
    let on = |e: &&Endpoint| sweep.paths.iter().any(|p| e.path == *p || e.path.starts_with(&format!("{p}/")));
    let swept: Vec<&Endpoint> = mounted.iter().filter(on).filter(|e| !is_lifted(e)).collect();
    assert_eq!(swept.iter().filter(|e| matches!(e.action, Action::Create)).count(), entities);
    let (mut reached, mut crossed) = (BTreeSet::new(), (0, 0));
    for endpoint in &swept {
        let desc = endpoint.table.as_ref().unwrap().desc;
        let base = sweep.paths.iter().find(|p| endpoint.path.starts_with(**p)).unwrap();
        // Of their own each, so that no probe meets what an earlier one has left behind.
        let theirs = victim(s, sweep, base, desc, 0).await;
        let second = victim(s, sweep, base, desc, 1).await;
        let nobodys = phantom(desc, &theirs);
        let before = dump(s, desc).await;
        let cursor = cursor(s, sweep, endpoint, &theirs).await;
        for probe in probes(endpoint, desc, base) {
            let (real, none) = (probe(&theirs, &cursor), probe(&nobodys, &forged(&cursor)));
            clean(s, sweep, base, desc).await;
            let real_answer = send(s, sweep, &real).await;
            clean(s, sweep, base, desc).await;
            let none_answer = send(s, sweep, &none).await;
            let (real_text, none_text) = (plain(&real_answer, &theirs, &cursor), plain(&none_answer, &nobodys, &forged(&cursor)));
            assert_eq!(real_text, none_text, "{} {} tells {real:?} from {none:?}", endpoint.method.as_str(), endpoint.path);
            assert!(real_answer.status < 500, "{real:?} {real_answer:?}");
            assert_eq!(dump(s, desc).await, before, "{real:?} changed what is not the caller's");
            reached.insert(format!("{} {}", endpoint.method.as_str(), endpoint.path));
        }
        drop(second);
        crossed.0 += usize::from(crossing::answers_are_not_replayed(s, sweep, endpoint, desc, base).await);
        crossed.1 += usize::from(crossing::included_records_are_ones_own(s, sweep, endpoint, desc, base).await);
    }
    // Of those that declare it there is at least one, so that this says something.
    let related = swept.iter().any(|e| e.includes() && !sweep.asking.is_empty());
    assert!(crossed.0 >= entities && (crossed.1 >= 2 || !related), "{crossed:?}");
    let all: BTreeSet<String> = swept.iter().map(|e| format!("{} {}", e.method.as_str(), e.path)).collect();
    assert_eq!(reached, all, "every route was probed");
}

/// `unscoped` says that the route shows what is not the caller's.
fn is_lifted(endpoint: &Endpoint) -> bool {
    matches!(endpoint.action, Action::Operation(spec, _) if spec.unscoped.is_some())
}

// -- records ---------------------------------------------------------------------------------------------------------------

/// A record of the victim, with every field it can have.
async fn victim(s: &Server, sweep: &Sweep, base: &str, desc: &'static EntityDesc, n: usize) -> Known {
    let mut body = Map::new();
    for (i, field) in desc.fields.iter().enumerate().filter(|(_, f)| f.creatable()) {
        body.insert(field.wire.to_owned(), sample(field, &format!("bobs{n}{i}{}", uniq())));
    }
    name(desc, THEIRS, &mut body);
    let reply = request(s, &sweep.victim, "POST", base, &[], Some(&Json::Object(body))).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json().as_object().unwrap().clone()
}

/// Has a record name what it is seen through.
fn name(desc: &EntityDesc, what: &str, body: &mut Map<String, Json>) {
    for gate in desc.gates {
        body.insert(desc.fields[gate.field].wire.to_owned(), json!(what));
    }
}

/// Texts of one length that occur once.
fn uniq() -> String {
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
            let members = fields.iter().map(|f| (f.wire.to_owned(), sample(f, &format!("{text}{}", f.wire))));
            json!([Json::Object(members.collect())])
        }
        Kind::Json => json!([]),
    }
}

/// The same shape with values that no record holds.
fn phantom(desc: &EntityDesc, of: &Known) -> Known {
    let turned = |text: &str| -> String {
        let turn = |c: char| match c {
            '0'..='9' => char::from(b'9' - (c as u8 - b'0')),
            // Ids are lower-case hexadecimal and stay so.
            'a'..='f' => char::from(b'f' - (c as u8 - b'a')),
            other => other,
        };
        text.chars().map(turn).collect()
    };
    let mut out = of.clone();
    for field in desc.fields {
        match (field.kind, out.get_mut(field.wire)) {
            (Kind::String, Some(Json::String(text))) => *text = turned(text),
            (Kind::StringArray, Some(Json::Array(list))) => {
                for item in list {
                    *item = json!(turned(item.as_str().unwrap_or_default()));
                }
            }
            (Kind::Items(_), Some(Json::Array(items))) => {
                for text in items.iter_mut().filter_map(Json::as_object_mut).flat_map(Map::values_mut) {
                    *text = json!(turned(text.as_str().unwrap_or_default()));
                }
            }
            (Kind::Integer, Some(value @ Json::Number(_))) => *value = json!(value.as_i64().unwrap_or_default() + 1),
            _ => {}
        }
    }
    out
}

/// Everything the store holds, deleted records included, as the application itself sees it.
async fn everything(s: &Server, desc: &'static EntityDesc) -> Vec<Box<[linchpin::Value]>> {
    let table = s.running().adapters().table(desc.storage_name).unwrap();
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageArgs { limit: Some(200), cursor, ..PageArgs::default() };
        let request = ListRequest { page, deleted: true, ..ListRequest::default() };
        let outcome = table.list(&Cx::system("look").at(s.now()), request, &Form::Records).await.unwrap();
        let Outcome::Page { rows, next_cursor } = outcome else { panic!("a page") };
        all.extend(rows.records);
        let Some(next) = next_cursor else { return all };
        cursor = Some(next);
    }
}

/// What is stored of the victim.
async fn dump(s: &Server, desc: &'static EntityDesc) -> Vec<String> {
    let theirs = everything(s, desc).await.into_iter().filter(|record| is_theirs(desc, record));
    theirs.map(|record| format!("{record:?}")).collect()
}

/// Leaves the caller with one record, whatever earlier probes have made of it.
async fn clean(s: &Server, sweep: &Sweep, base: &str, desc: &'static EntityDesc) {
    let table = s.running().adapters().table(desc.storage_name).unwrap();
    for record in everything(s, desc).await.iter().filter(|record| !is_theirs(desc, record)) {
        table.purge(&Cx::system("clean up"), record[desc.primary].clone()).await.unwrap();
    }
    if !sweep.asking.is_empty() {
        let own = desc.fields.iter().filter(|f| f.creatable()).map(|f| (f.wire.to_owned(), sample(f, "own")));
        let mut own: Map<String, Json> = own.collect();
        own.insert("views".to_owned(), json!(5));
        name(desc, OWN, &mut own);
        assert_eq!(request(s, &sweep.asking, "POST", base, &[], Some(&Json::Object(own))).await.status, 201);
    }
}

/// Whether a record is the victim's.
fn is_theirs(desc: &EntityDesc, record: &[linchpin::Value]) -> bool {
    let (field, of) = match (desc.tenant, desc.scope.first()) {
        (Some(tenant), _) => (tenant.field, "t2"),
        (None, Some(scope)) => (scope.field, "bob"),
        (None, None) if !desc.gates.is_empty() => (desc.gates[0].field, THEIRS),
        (None, None) => panic!("`{}` is everybody's", desc.name),
    };
    record[field] == linchpin::Value::Text(of.to_owned())
}

// -- probes ----------------------------------------------------------------------------------------------------------------

/// A request that names a record.
#[derive(Debug, Clone, Default)]
struct Request {
    method: &'static str,
    path: String,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Json>,
}

type Probe = Box<dyn Fn(&Known, &str) -> Request>;
type Change = Box<dyn Fn(&mut Request, &Known, &str)>;

/// What a route is asked about a record: by path, parameters, filters, cursors, headers and bodies.
fn probes(endpoint: &Endpoint, desc: &'static EntityDesc, base: &str) -> Vec<Probe> {
    let (method, path, base) = (endpoint.method.as_str(), endpoint.path.clone(), base.to_owned());
    let plain = {
        let endpoint = endpoint.clone();
        move |known: &Known| {
            let mut request = Request { method, path: fill(&path, desc, &endpoint, known), ..Request::default() };
            match endpoint.action {
                Action::Create => request.body = Some(body(desc, known, FieldDesc::creatable)),
                Action::Update => request.body = Some(body(desc, known, FieldDesc::updatable)),
                Action::Operation(spec, in_path) => operation(spec, in_path, desc, known, &mut request),
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
    // Headers: a version, a tenant and an owner that the caller would like to be.
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
    for (name, wire) in [("x-tenant-id", "tenantId"), ("x-tenant", "tenantId"), ("x-user-id", "ownerId"), ("x-forwarded-user", "ownerId")] {
        add(
            &mut out,
            Box::new(move |request, known, _| {
                request.headers.push((name, known.get(wire).and_then(Json::as_str).unwrap_or("somebody").to_owned()));
            }),
        );
    }
    // Bodies that name whose the record is, or its key.
    for field in desc.fields.iter().filter(|f| f.readable()) {
        add(
            &mut out,
            Box::new(move |request, known, _| {
                if let Some(Json::Object(body)) = &mut request.body
                    && !told(desc, field)
                {
                    body.insert(field.wire.to_owned(), known.get(field.wire).cloned().unwrap_or(Json::Null));
                }
            }),
        );
        // Parameters nobody declared.
        add(&mut out, Box::new(move |request, known, _| push(&mut request.query, field.wire, known.get(field.wire))));
    }
    add(&mut out, Box::new(|request, known, _| push(&mut request.query, "actor.id", known.get("ownerId"))));
    add(&mut out, Box::new(|request, _, _| push(&mut request.query, "includeDeleted", Some(&json!("true")))));
    add(&mut out, Box::new(|request, _, cursor| push(&mut request.query, "cursor", Some(&json!(cursor)))));
    if endpoint.includes() {
        for relation in desc.relations {
            // The relations of the fixture lead to their own entity.
            for path in [relation.wire.to_owned(), format!("{0}.{0}", relation.wire)] {
                add(&mut out, Box::new(move |request, _, _| push(&mut request.query, "include", Some(&json!(path)))));
            }
        }
    }
    match endpoint.action {
        Action::List => {
            for field in desc.fields.iter().filter(|f| f.readable() && f.flags.has(Flags::FILTERABLE.or(Flags::PRIMARY))) {
                for operator in ["", "[ne]", "[gt]", "[gte]", "[lt]", "[lte]", "[in]", "[nin]", "[contains]", "[has]"] {
                    // How a stranger's value sorts against one's own says nothing of whether it is there.
                    if matches!(operator, "[gt]" | "[gte]" | "[lt]" | "[lte]") {
                        continue;
                    }
                    add(
                        &mut out,
                        Box::new(move |request, known, _| {
                            push(&mut request.query, &format!("{}{operator}", field.wire), known.get(field.wire));
                        }),
                    );
                }
            }
        }
        Action::Operation(..) if endpoint.method.as_str() == "GET" => {}
        _ => {
            // A body where there is none, and one that is no body at all.
            add(&mut out, Box::new(|request, known, _| request.body = Some(Json::Object(known.clone()))));
            add(&mut out, Box::new(|request, _, _| request.body = Some(json!([1]))));
        }
    }
    // Twice in a row: the second may meet what the first has changed of one's own.
    add(&mut out, Box::new(|_, _, _| {}));
    let _ = base;
    out
}

fn push(query: &mut String, name: &str, value: Option<&Json>) {
    let Some(value) = value.filter(|v| !v.is_null()) else { return };
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Array(list) => list.first().and_then(Json::as_str).unwrap_or_default().to_owned(),
        other => other.to_string(),
    };
    let text: String = text
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() || b"-_.".contains(&b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    query.push_str(if query.is_empty() { "?" } else { "&" });
    query.push_str(&format!("{name}={text}"));
}

fn body(desc: &'static EntityDesc, known: &Known, wanted: impl Fn(&FieldDesc) -> bool) -> Json {
    let value = |f: &FieldDesc| if told(desc, f) { Some(json!(format!("fresh{}", uniq()))) } else { known.get(f.wire).cloned() };
    let members = desc.fields.iter().filter(|f| wanted(f)).filter_map(|f| Some((f.wire.to_owned(), value(f)?)));
    Json::Object(members.collect())
}

/// Whether a unique beyond one's own records tells that a value is taken: a refused create says so, as the contract allows.
fn told(desc: &EntityDesc, field: &FieldDesc) -> bool {
    let holds = |u: &linchpin::entity::UniqueDesc| u.fields.iter().any(|f| desc.fields[*f].wire == field.wire);
    desc.uniques.iter().any(|u| (u.global || desc.tenant.is_none()) && holds(u))
}

/// The value of a parameter: that of the field it is compared with or written to.
fn argument(param: &ParamSpec, desc: &EntityDesc, known: &Known) -> Json {
    let field = &desc.fields[param.field];
    let value = known.get(field.wire).cloned().unwrap_or(Json::Null);
    match (param.list, field.kind, value) {
        (true, Kind::StringArray, list) => list,
        (true, _, one) => json!([one]),
        (false, Kind::StringArray, Json::Array(list)) if !is_whole(param, field) => list.first().cloned().unwrap_or(json!("none")),
        (_, _, value) => value,
    }
}

/// Whether a parameter holds a whole list of strings: its name says so, as `array_set` binds it.
fn is_whole(param: &ParamSpec, field: &FieldDesc) -> bool {
    param.name == field.wire
}

fn operation(spec: &'static OpSpec, in_path: bool, desc: &'static EntityDesc, known: &Known, request: &mut Request) {
    let mut members = Map::new();
    let mut whole = None;
    for param in spec.params {
        let creates = spec.kind.name() == "upsert" && told(desc, &desc.fields[param.field]);
        let value = if creates { json!(format!("fresh{}", uniq())) } else { argument(param, desc, known) };
        match param.place {
            Place::Body => drop(members.insert(param.name.to_owned(), value)),
            Place::Query => push(&mut request.query, param.name, Some(&value)),
            Place::Segment if !in_path => push(&mut request.query, param.name, Some(&value)),
            Place::Segment | Place::Id => {}
            Place::Whole(Whole::Items) => whole = Some(value),
            Place::Whole(Whole::Item) => whole = Some(value.get(0).cloned().unwrap_or_else(|| json!({}))),
            Place::Whole(Whole::Patch) => {
                let mut item = value.get(0).cloned().unwrap_or_else(|| json!({}));
                // The member that tells items apart never changes.
                item.as_object_mut().unwrap().remove("id");
                whole = Some(item);
            }
        }
    }
    if !matches!(request.method, "GET" | "DELETE") {
        request.body = Some(whole.unwrap_or(Json::Object(members)));
    }
}

/// The path with the record's values in it.
fn fill(path: &str, desc: &EntityDesc, endpoint: &Endpoint, known: &Known) -> String {
    let value = |name: &str| -> String {
        let field = match endpoint.action {
            Action::Operation(spec, _) => spec.params.iter().find(|p| p.name == name).map(|p| p.field),
            _ => None,
        };
        let wire = desc.fields[field.unwrap_or(desc.primary)].wire;
        // Of a list of items, the id of the first.
        let text = known.get(wire).and_then(|value| value.as_str().or_else(|| value[0]["id"].as_str()));
        text.unwrap_or("none").to_owned()
    };
    let segments = path.split('/').map(|part| match part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
        Some(name) => value(name),
        None => part.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}

/// A position within the victim's records on this route; any text where the route has no pages.
async fn cursor(s: &Server, sweep: &Sweep, endpoint: &Endpoint, theirs: &Known) -> String {
    let desc = endpoint.table.as_ref().unwrap().desc;
    let mut request = Request { method: endpoint.method.as_str(), path: endpoint.path.clone(), ..Request::default() };
    if let Action::Operation(spec, in_path) = endpoint.action {
        operation(spec, in_path, desc, theirs, &mut request);
    }
    if request.method == "GET" {
        push(&mut request.query, "limit", Some(&json!("1")));
        let path = format!("{}{}", request.path, request.query);
        let reply = crate::isolation::request(s, &sweep.victim, "GET", &path, &[], None).await;
        if let Some(cursor) = reply.status.eq(&200).then(|| reply.json()["nextCursor"].as_str().map(str::to_owned)).flatten() {
            return cursor;
        }
    }
    "bm90IGEgY3Vyc29y".to_owned()
}

/// A cursor that nobody has signed.
fn forged(cursor: &str) -> String {
    let turn = |c: char| if c == 'A' { 'B' } else { 'A' };
    cursor.chars().enumerate().map(|(i, c)| if i % 5 == 2 { turn(c) } else { c }).collect()
}

// -- requests and answers --------------------------------------------------------------------------------------------------

async fn send(s: &Server, sweep: &Sweep, request: &Request) -> Reply {
    let headers: Vec<(&str, &str)> = request.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let path = format!("{}{}", request.path, request.query);
    self::request(s, &sweep.asking, request.method, &path, &headers, request.body.as_ref()).await
}

async fn request(s: &Server, token: &str, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Json>) -> Reply {
    let mut all = headers.to_vec();
    if !token.is_empty() {
        all.push(("authorization", token));
    }
    let text = body.map(Json::to_string).unwrap_or_default();
    if body.is_some() {
        all.push(("content-type", "application/json"));
    }
    s.raw(method, path, &all, &text).await
}

/// An answer with what must differ taken out: the request's id, the date of the answer, and the names the asker gave.
fn plain(reply: &Reply, known: &Known, cursor: &str) -> String {
    let mut headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    headers.sort();
    let body = String::from_utf8_lossy(&reply.body).replace(&reply.header("x-request-id"), "REQUEST");
    let mut text = format!("{}\n{}\n\n{body}", reply.status, headers.join("\n")).replace(cursor, "CURSOR");
    for (name, value) in known {
        match value {
            Json::String(value) if value.len() > 4 => text = text.replace(value.as_str(), name),
            Json::Array(list) => {
                let members = list.iter().filter_map(Json::as_object).flat_map(Map::values);
                for item in list.iter().chain(members).filter_map(Json::as_str) {
                    text = text.replace(item, name);
                }
            }
            Json::Number(value) if name == "views" => text = text.replace(&format!(":{value}"), ":VIEWS"),
            _ => {}
        }
    }
    fresh_ids(&text)
}

/// Keys of records that the probe itself made, and what is signed over them.
fn fresh_ids(text: &str) -> String {
    let uuid = regex::Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let cursor = regex::Regex::new(r#""nextCursor":"[^"]+""#).unwrap();
    let fresh = regex::Regex::new("fresh[0-9]{6}").unwrap();
    let text = fresh.replace_all(text, "FRESH");
    cursor.replace_all(&uuid.replace_all(&text, "UUID"), r#""nextCursor":"SIGNED""#).into_owned()
}
