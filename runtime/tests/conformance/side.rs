//! One side of the comparison: the whole service on a store, called without a socket.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Parts;
use http_body_util::BodyExt;
use linchpin::entity::{Direction, Entity, EntityDesc, Kind, PageArgs};
use linchpin::filter::Filter;
use linchpin::http::{ActorResolver, Endpoint, HttpService, HttpState, Resolution, endpoints, service};
use linchpin::resource::{Adapters, CursorKey, Form, ListRequest, Outcome, Table};
use linchpin::store::{Order, Plan, Rows, Store};
use linchpin::{Actor, ActorKind, Cx, Error, Timestamp, Value};
use regex::Regex;
use serde_json::Value as Json;
use tower_service::Service;

use super::fixture::{ALL, Comment};
use super::sequence::{Call, Filtered};

/// Who calls: nobody, two of one tenant, one of another, and one of none.
pub const ACTORS: [Option<(&str, Option<&str>)>; 5] =
    [None, Some(("alice", Some("t1"))), Some(("bob", Some("t1"))), Some(("carol", Some("t2"))), Some(("dave", None))];

/// Where every sequence begins.
const START: &str = "2026-03-04T05:06:07.008Z";

pub fn actor(n: usize) -> Arc<Actor> {
    let Some((id, tenant)) = ACTORS[n % ACTORS.len()] else { return Arc::new(Actor::anonymous()) };
    Arc::new(Actor { kind: ActorKind::User, tenant_id: tenant.map(str::to_owned), ..Actor::user(id) })
}

/// Believes the header `x-actor`.
struct Believer(Vec<Arc<Actor>>);

impl ActorResolver for Believer {
    fn resolve(&self, parts: &Parts) -> Resolution {
        let n = parts.headers.get("x-actor").and_then(|v| v.to_str().ok()).and_then(|t| t.parse().ok()).unwrap_or(0_usize);
        Resolution::Ready(Ok(Arc::clone(&self.0[n % self.0.len()])))
    }
}

/// The fixture on a store, served without a socket.
pub async fn app(store: &Arc<dyn Store>, clock: &Arc<AtomicI64>) -> (Adapters, HttpService) {
    let descs: Vec<&'static EntityDesc> = ALL.entities.iter().map(|e| e.desc).collect();
    store.install(&descs).await.unwrap_or_else(|e| panic!("{}: {e:?}", store.name()));
    let key = CursorKey::derive(&["a secret of at least thirty-two bytes"]);
    let tables = ALL.entities.iter().map(|entry| {
        let table = Table::new(entry.desc, Arc::clone(store), key.clone());
        Arc::new(table.unwrap_or_else(|e| panic!("{e:?}")).bounded(entry))
    });
    let adapters = Adapters::new(tables);
    let mut state = HttpState::new(adapters.clone());
    let reading = Arc::clone(clock);
    state.clock = Arc::new(move || Timestamp::from_millis(reading.load(Ordering::SeqCst)));
    state.resolver = Some(Arc::new(Believer((0..ACTORS.len()).map(actor).collect())));
    let service = service(endpoints(&ALL, ALL.mount, &adapters), state).expect("a service");
    (adapters, service)
}

pub struct Side {
    store: Arc<dyn Store>,
    adapters: Adapters,
    service: HttpService,
    clock: Arc<AtomicI64>,
    /// What the server has made up, and what it is called here.
    names: HashMap<String, String>,
    /// Keys below each path, as they were first seen.
    known: HashMap<String, Vec<String>>,
    cursor: String,
}

/// An answer in which nothing differs from side to side that may.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub text: String,
    /// Whether there is a further page.
    pub more: bool,
}

impl Side {
    pub async fn new(store: Arc<dyn Store>) -> Self {
        let clock = Arc::new(AtomicI64::new(0));
        let (adapters, service) = app(&store, &clock).await;
        let mut side = Self { store, adapters, service, clock, names: HashMap::new(), known: HashMap::new(), cursor: String::new() };
        side.reset().await;
        side
    }

    pub fn routes(&self) -> Vec<Endpoint> {
        endpoints(&ALL, ALL.mount, &self.adapters)
    }

    /// As it was at first.
    pub async fn reset(&mut self) {
        for entry in ALL.entities {
            let all = self.store.prepare(entry.desc, Plan::Delete { filter: Filter::TRUE, pick: None }).expect("a plan");
            self.store.run(&all, Vec::new(), Rows::count()).rows().await.expect("emptied");
        }
        self.clock.store(Timestamp::parse(START).expect("a date").millis(), Ordering::SeqCst);
        self.names.clear();
        self.known.clear();
        "bm90IGEgY3Vyc29y".clone_into(&mut self.cursor);
    }

    pub fn advance(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }

    /// Sends a request; `cursor` goes on behind an earlier page.
    pub async fn call(&mut self, who: usize, call: &Call, next: bool) -> Answer {
        let mut path = String::new();
        for segment in &call.path {
            path.push('/');
            encode(&self.filled(segment), &mut path);
        }
        let after = next.then(|| ("cursor".to_owned(), "<cursor>".to_owned()));
        let kept = call.query.iter().filter(|(name, _)| !next || name != "cursor");
        for (i, (name, value)) in kept.chain(&after).enumerate() {
            path.push(if i == 0 { '?' } else { '&' });
            encode(name, &mut path);
            path.push('=');
            encode(&self.filled(value), &mut path);
        }
        let mut request =
            Request::builder().method(call.method.as_str()).uri(path).header("x-actor", who).header("x-request-id", "conformance");
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let body = call.body.as_ref().map(|body| {
            let mut body = body.clone();
            self.fill(&mut body);
            if next && let Some(members) = body.as_object_mut() {
                members.insert("cursor".to_owned(), self.cursor.clone().into());
            }
            body.to_string()
        });
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Body::from(body.unwrap_or_default())).expect("a request");
        let Ok(response) = self.service.clone().call(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let mut headers: Vec<String> =
            parts.headers.iter().map(|(n, v)| format!("{n}: {}\n", String::from_utf8_lossy(v.as_bytes()))).collect();
        headers.retain(|line| !line.starts_with("content-length:"));
        headers.sort();
        let body = String::from_utf8_lossy(&body).into_owned();
        let (body, more) = self.unsigned(body);
        let text = self.named(format!("{}\n{body}", headers.concat()));
        Answer { status: parts.status.as_u16(), text, more }
    }

    /// A page by the adapter.
    pub async fn filtered(&mut self, who: usize, asked: &Filtered, next: bool) -> Answer {
        let table = Arc::clone(self.adapters.table(&asked.entity).expect("an entity of the fixture"));
        let filter = Filter::from_json(&asked.filter, table.desc, &[]).unwrap_or_else(|e| panic!("{e}: {}", asked.filter));
        let field = asked.sort.as_ref().map(|wire| table.desc.field_by_wire(wire).expect("a field"));
        let direction = if asked.desc { Direction::Desc } else { Direction::Asc };
        let page = PageArgs { limit: Some(asked.limit), cursor: next.then(|| self.cursor.clone()) };
        let request = ListRequest { page, sort: field.map(|f| (f, direction)), filter: Some(filter), deleted: false };
        let mut cx = Cx::actor(actor(who)).at(self.now());
        if asked.entity == Comment::DESC.storage_name {
            // Where the parent path would say which document.
            cx = cx.within(super::fixture::comment::team_id, 1).within(super::fixture::comment::doc_id, "a".to_owned());
        }
        let outcome = match table.admit(&cx, "list") {
            Ok(()) => table.list(&cx, request, &Form::Records).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Outcome::Page { rows, next_cursor }) => {
                let more = next_cursor.is_some();
                self.cursor = next_cursor.unwrap_or_else(|| self.cursor.clone());
                Answer { status: 200, text: self.named(records(table.desc, rows.records.iter())), more }
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Answer { status: 0, text: describe(&error), more: false },
        }
    }

    /// Everything that is stored of an entity: hidden fields and deleted records as well. Only expired records are left out, since
    /// nobody can tell when they go.
    pub async fn contents(&mut self, desc: &'static EntityDesc) -> String {
        let by_key = vec![Order { field: desc.primary, desc: false }];
        let limit = Some(linchpin::filter::Source::Value(Value::Int(500)));
        let all = Plan::Select { filter: Filter::TRUE, order: by_key, after: None, limit };
        let all = self.store.prepare(desc, all).expect("a plan");
        let rows = self.store.run(&all, Vec::new(), Rows::records(desc)).rows().await.expect("the contents");
        assert!(rows.records.len() < 500, "more than is looked at");
        let now = self.now();
        let expired = |record: &[Value]| desc.ttl.is_some_and(|ttl| matches!(record[ttl.field], Value::Date(at) if at <= now));
        let live: Vec<&Box<[Value]>> = rows.records.iter().filter(|record| !expired(record)).collect();
        for record in &live {
            self.remember(desc, record);
        }
        self.named(records(desc, live.into_iter()))
    }

    fn remember(&mut self, desc: &EntityDesc, record: &[Value]) {
        let mut note = |path: String, key: String| {
            let known = self.known.entry(path).or_default();
            if !known.contains(&key) {
                known.push(key);
            }
        };
        for (field, value) in desc.fields.iter().zip(record) {
            match value {
                Value::Json(text) if !field.kind.item_fields().is_empty() => {
                    let items = serde_json::from_str::<Json>(text).unwrap_or_default();
                    for id in items.as_array().into_iter().flatten().filter_map(|item| item["id"].as_str()) {
                        note(format!("{}.{}", desc.path, field.wire), id.to_owned());
                    }
                }
                _ => {}
            }
        }
        match &record[desc.primary] {
            Value::Text(key) => note(desc.path.to_owned(), key.clone()),
            Value::Int(key) => note(desc.path.to_owned(), key.to_string()),
            _ => {}
        }
    }

    /// Puts keys and the cursor in for what stands for them.
    fn filled(&self, text: &str) -> String {
        static REFERENCE: LazyLock<Regex> = LazyLock::new(|| Regex::new("<([a-z.]+):([0-9]+)>").expect("a pattern"));
        if !text.contains('<') {
            return text.to_owned();
        }
        let put = |found: &regex::Captures<'_>| {
            let known = self.known.get(&found[1]).map_or(&[][..], Vec::as_slice);
            let n: usize = found[2].parse().unwrap_or(0);
            // The latest first: they are the ones that are still there.
            let place = known.len().checked_sub(1 + n % known.len().max(1));
            place.map_or_else(|| "none".to_owned(), |place| known[place].clone())
        };
        REFERENCE.replace_all(text, put).replace("<cursor>", &self.cursor)
    }

    fn fill(&self, json: &mut Json) {
        match json {
            Json::String(text) => *text = self.filled(text),
            Json::Array(list) => list.iter_mut().for_each(|item| self.fill(item)),
            Json::Object(members) => members.values_mut().for_each(|member| self.fill(member)),
            _ => {}
        }
    }

    /// Takes the cursor out of a page and keeps it.
    fn unsigned(&mut self, body: String) -> (String, bool) {
        const BEFORE: &str = "\"nextCursor\":\"";
        let Some((head, tail)) = body.split_once(BEFORE) else { return (body, false) };
        let Some((cursor, tail)) = tail.split_once('"') else { return (body, false) };
        cursor.clone_into(&mut self.cursor);
        (format!("{head}{BEFORE}SIGNED\"{tail}"), true)
    }

    /// Gives what the server has made up a name: the number of things it has made up before.
    fn named(&mut self, text: String) -> String {
        static MADE: LazyLock<Regex> = LazyLock::new(|| {
            let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}";
            Regex::new(&format!(r"{uuid}|\b[a-z][a-z0-9]{{23}}\b")).expect("a pattern")
        });
        let names = &mut self.names;
        let name = |found: &regex::Captures<'_>| {
            let next = format!("made-{}", names.len());
            names.entry(found[0].to_owned()).or_insert(next).clone()
        };
        MADE.replace_all(&text, name).into_owned()
    }
}

/// Records as JSON arrays, one a line.
fn records<'a>(desc: &EntityDesc, records: impl Iterator<Item = &'a Box<[Value]>>) -> String {
    let mut out = String::new();
    for record in records {
        for (i, (field, value)) in desc.fields.iter().zip(record).enumerate() {
            out.push(if i == 0 { '[' } else { ',' });
            match value {
                Value::Null => out.push_str("null"),
                Value::Bool(b) => write!(out, "{b}").expect("a text"),
                Value::Int(n) => write!(out, "{n}").expect("a text"),
                Value::Float(n) => write!(out, "{n:?}").expect("a text"),
                Value::Text(text) => out.push_str(&Json::from(text.as_str()).to_string()),
                Value::Date(at) => write!(out, "\"{at}\"").expect("a text"),
                Value::Strings(list) => out.push_str(&Json::from(list.clone()).to_string()),
                // Stores hand out lists of strings as lists or as JSON.
                Value::Json(text) if matches!(field.kind, Kind::StringArray) => {
                    out.push_str(&serde_json::from_str::<Json>(text).expect("JSON").to_string());
                }
                Value::Json(text) => out.push_str(text),
            }
        }
        out.push_str("]\n");
    }
    out
}

fn describe(error: &Error) -> String {
    let details: Vec<String> = error.details().iter().map(|p| format!("{} {}", p.path, p.code)).collect();
    format!("{} {details:?}", error.code().as_str())
}

/// Appends a text as it stands in a path or a query.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a text");
        }
    }
}
