//! One side of the comparison: the whole app on a store, called without its socket.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Parts;
use http_body_util::BodyExt;
use linchpin::entity::{Direction, Entity, EntityDesc, PageArgs};
use linchpin::filter::Filter;
use linchpin::filter::eval::matches;
use linchpin::http::{ActorResolver, Claims, Endpoint, HttpService, HttpState, Origin, Resolution, RouteAuth, endpoints, service};
use linchpin::prelude::*;
use linchpin::resource::{Adapters, CursorKey, Form, ListRequest, Outcome, Table};
use linchpin::store::{Order, Plan, Row, Rows, Statement, Store};
use linchpin::{Actor, ActorKind, BoxFuture, Cx, EntityEvent, MiddlewareCx, Plugin, PostCx, Value, ValueRef};
use parking_lot::Mutex;
use regex::Regex;
use serde_json::Value as Json;
use tower_service::Service;

use super::act::{self, Act, End};
use super::fixture::{ALL, Comment};
use super::related::{Finding, Judge, Memo, Node, Project, Ticket};
use super::sequence::{Call, Filtered};

mod text;

use text::{describe, encode, is_cuid, is_uuid, records};

/// Who calls: nobody, two of one tenant, one of another, and one of none. The first of them is an editor.
pub const ACTORS: [Option<(&str, Option<&str>)>; 5] =
    [None, Some(("alice", Some("t1"))), Some(("bob", Some("t1"))), Some(("carol", Some("t2"))), Some(("dave", None))];

/// Where every sequence begins.
const START: &str = "2026-03-04T05:06:07.008Z";

const SECRET: &str = "a secret of at least thirty-two bytes";

pub fn actor(n: usize) -> Arc<Actor> {
    let Some((id, tenant)) = ACTORS[n % ACTORS.len()] else { return Arc::new(Actor::anonymous()) };
    let roles = if id == "alice" { vec!["editor".to_owned()] } else { Vec::new() };
    Arc::new(Actor { kind: ActorKind::User, tenant_id: tenant.map(str::to_owned), roles, ..Actor::user(id) })
}

/// Believes the header `x-actor`.
pub struct Believer(Vec<Arc<Actor>>);

impl Believer {
    pub fn new() -> Self {
        Self((0..ACTORS.len()).map(actor).collect())
    }
}

impl ActorResolver for Believer {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let n = parts.headers.get("x-actor").and_then(|v| v.to_str().ok()).and_then(|t| t.parse().ok()).unwrap_or(0_usize);
        Resolution::Ready(Ok(Arc::clone(&self.0[n % self.0.len()])))
    }
}

impl Plugin for Believer {
    fn name(&self) -> &'static str {
        "believer"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.set_actor_resolver(Arc::new(Self::new())) })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.registrar().set_route_auth(RouteAuth::default())?;
            cx.registrar().set_evaluator(Judge)
        })
    }
}

/// The fixture on a store, served without an app around it: nobody listens to events.
pub async fn app(store: &Arc<dyn Store>, clock: &Arc<AtomicI64>) -> (Adapters, HttpService) {
    let descs: Vec<&'static EntityDesc> = all().collect();
    store.install(&descs).await.unwrap_or_else(|e| panic!("{}: {e:?}", store.name()));
    let key = CursorKey::derive(&[SECRET]);
    let tables = ALL.entities.iter().map(|entry| {
        let table = Table::new(entry.desc, Arc::clone(store), key.clone());
        Arc::new(table.unwrap_or_else(|e| panic!("{e:?}")).bounded(entry))
    });
    let adapters = Adapters::new(tables);
    let mut state = HttpState::new(adapters.clone());
    let reading = Arc::clone(clock);
    state.clock = Arc::new(move || Timestamp::from_millis(reading.load(Ordering::SeqCst)));
    state.resolver = Some(Arc::new(Believer::new()));
    state.registry.evaluator = Some(Arc::new(Judge));
    state.claims = Some(Arc::new(Claims::new(store).expect("claims")));
    let service = service(endpoints(&ALL, ALL.mount, &adapters), state).expect("a service");
    (adapters, service)
}

/// The entities whose events are compared. Those of others are not recorded, as where nobody listens.
pub const TOLD: [&str; 5] = ["diff_memos", "diff_projects", "diff_tickets", "diff_nodes", "diff_findings"];

/// Every entity there is, that of the claims included.
fn all() -> impl Iterator<Item = &'static EntityDesc> {
    ALL.entities.iter().map(|entry| entry.desc).chain([Claims::entity()])
}

/// What has been told, by entity.
type Told = Arc<Mutex<HashMap<String, Vec<EntityEvent>>>>;

pub struct Side {
    store: Arc<dyn Store>,
    running: linchpin::Running,
    service: HttpService,
    clock: Arc<AtomicI64>,
    told: Told,
    /// What the server has made up, and what it is called here.
    names: HashMap<String, String>,
    /// Keys below each path, as they were first seen.
    known: HashMap<String, Vec<String>>,
    cursor: String,
    /// Ends of sequences so far.
    ends: usize,
    /// Of each entity: what reads all of it, and what removes all of it.
    whole: HashMap<&'static str, (Arc<Statement>, Arc<Statement>)>,
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
        let (reading, told) = (Arc::clone(&clock), Told::default());
        let hear = || {
            let told = Arc::clone(&told);
            move |event: EntityEvent| {
                told.lock().entry(event.entity.clone().into_owned()).or_default().push(event);
                async { Ok(()) }
            }
        };
        let (memos, projects, tickets, nodes, findings) = (hear(), hear(), hear(), hear(), hear());
        let running = App::new(Config::new().signing_secret(SECRET).port(0).openapi(false).database("memory:"))
            .store(Arc::clone(&store))
            .plugin(Believer::new())
            .package(&ALL)
            .clock(move || Timestamp::from_millis(reading.load(Ordering::SeqCst)))
            .sweep_every(Duration::from_hours(24))
            .on_event::<Memo, _, _>("memos", move |event| memos(event.into_inner()))
            .on_event::<Project, _, _>("projects", move |event| projects(event.into_inner()))
            .on_event::<Ticket, _, _>("tickets", move |event| tickets(event.into_inner()))
            .on_event::<Node, _, _>("nodes", move |event| nodes(event.into_inner()))
            .on_event::<Finding, _, _>("findings", move |event| findings(event.into_inner()))
            .start()
            .await
            .unwrap_or_else(|e| panic!("{}: {e:?}", store.name()));
        let service = running.service();
        let (names, known) = (HashMap::new(), HashMap::new());
        let whole = all().map(|desc| {
            let by_key = vec![Order { field: desc.primary, desc: false }];
            let limit = Some(linchpin::filter::Source::Value(Value::Int(500)));
            let read = Plan::Select { filter: Filter::TRUE, order: by_key, after: None, limit };
            let remove = Plan::Delete { filter: Filter::TRUE, pick: None };
            let prepared = |plan| store.prepare(desc, plan).expect("a plan");
            (desc.storage_name, (prepared(read), prepared(remove)))
        });
        let whole = whole.collect();
        let mut side = Self { store, running, service, clock, told, names, known, cursor: String::new(), ends: 0, whole };
        side.reset().await;
        side
    }

    pub async fn stop(self) {
        self.running.stop().await.expect("stopped");
    }

    pub fn routes(&self) -> Vec<Endpoint> {
        endpoints(&ALL, ALL.mount, self.running.adapters())
    }

    /// As it was at first.
    pub async fn reset(&mut self) {
        for desc in all() {
            let (_, remove) = &self.whole[desc.storage_name];
            self.store.run(remove, Vec::new(), Rows::count()).rows().await.expect("emptied");
        }
        self.clock.store(Timestamp::parse(START).expect("a date").millis(), Ordering::SeqCst);
        self.names.clear();
        self.known.clear();
        "bm90IGEgY3Vyc29y".clone_into(&mut self.cursor);
    }

    /// Every event since the last look, by record and in its order: how those of several records follow each other is nobody's
    /// promise. Each entity gets a last one, and those before it have come when it has.
    pub async fn told(&mut self) -> String {
        self.ends += 1;
        let end = format!("end-{}", self.ends);
        act::mark(self.running.adapters(), &self.cx(), &end, self.ends).await;
        let all_in = |told: &HashMap<String, Vec<EntityEvent>>| {
            TOLD.iter().all(|entity| told.get(*entity).is_some_and(|events| events.iter().any(|e| e.payload.to_string().contains(&end))))
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), async {
            while !all_in(&self.told.lock()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let in_time = waited.await.is_ok();
        let told = std::mem::take(&mut *self.told.lock());
        assert!(in_time, "{}: the last event does not come: {told:?}", self.store.name());
        let mut out = String::new();
        for entity in TOLD {
            let mut ids = BTreeSet::new();
            let mut events: Vec<&EntityEvent> = told[entity].iter().collect();
            events.sort_by_key(|e| self.names.get(e.record_id.as_deref().unwrap_or_default()).or(e.record_id.as_ref()));
            for e in events {
                if e.payload.to_string().contains("end-") {
                    continue;
                }
                writeln!(
                    out,
                    "{} {} {:?} {} {:?} {:?} {:?} {:?} {} {} {:?} {:?} once: {}",
                    e.name,
                    e.route,
                    e.record_id,
                    e.payload,
                    e.before.as_ref().map(Json::to_string),
                    e.after.as_ref().map(Json::to_string),
                    e.actor,
                    e.tenant_id,
                    e.request_id,
                    e.at,
                    e.version,
                    e.keys,
                    ids.insert(e.id.to_string()),
                )
                .expect("a text");
            }
        }
        self.named(out)
    }

    /// Calls from code, alone or together.
    pub async fn act(&mut self, acts: &[Act], end: End) -> Answer {
        let filled: Vec<Act> = acts.iter().map(|act| act.filled(|text| self.filled(text))).collect();
        let text = act::run(self.running.adapters(), &self.cx(), &filled, end).await;
        Answer { status: 200, text: self.named(text), more: false }
    }

    /// The application itself, now.
    fn cx(&self) -> Cx {
        Cx::system("a conformance test").at(self.now())
    }

    pub fn advance(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    pub fn now(&self) -> Timestamp {
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
        let kept = call.query.iter().filter(|(name, _)| !next || (name != "cursor" && name != "page"));
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
                members.remove("page");
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
        let table = Arc::clone(self.running.adapters().table(&asked.entity).expect("an entity of the fixture"));
        let filter = Filter::from_json(&asked.filter, table.desc, &[]).unwrap_or_else(|e| panic!("{e}: {}", asked.filter));
        let field = asked.sort.as_ref().map(|wire| table.desc.field_by_wire(wire).expect("a field"));
        let direction = if asked.desc { Direction::Desc } else { Direction::Asc };
        let page = PageArgs { limit: Some(asked.limit), cursor: next.then(|| self.cursor.clone()), ..PageArgs::default() };
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
        let (all, _) = &self.whole[desc.storage_name];
        let rows = self.store.run(all, Vec::new(), Rows::records(desc)).rows().await.expect("the contents");
        assert!(rows.records.len() < 500, "more than is looked at");
        let now = self.now();
        let expired = |record: &[Value]| desc.ttl.is_some_and(|ttl| matches!(record[ttl.field], Value::Date(at) if at <= now));
        let live: Vec<&Box<[Value]>> = rows.records.iter().filter(|record| !expired(record)).collect();
        let mut broken = String::new();
        for record in &live {
            self.remember(desc, record);
            // Whatever both sides agree on, what is computed follows from the rest.
            for (field, value) in desc.fields.iter().zip(&record[..]) {
                let follows = field.computed.map(|computed| (computed.value)(&Stored(record)));
                if follows.is_some_and(|follows| !matches!(follows, Ok(follows) if follows == *value)) {
                    broken.push_str(&format!("\n{}: `{}` does not follow from the rest of {record:?}", self.store.name(), field.wire));
                }
            }
        }
        self.named(records(desc, live.into_iter())) + &broken
    }

    /// Every number that records of an entity keep of others is what counting gives.
    pub async fn sound(&self, desc: &'static EntityDesc) -> std::result::Result<(), String> {
        for other in all() {
            for summary in other.summaries.iter().filter(|summary| (summary.target)().storage_name == desc.storage_name) {
                let field = summary.position().expect("a field");
                let when = Filter::from(&summary.when);
                let (records, kept) = (self.stored(other).await, self.stored(desc).await);
                for record in kept {
                    let named = |one: &[Value]| one[summary.by] == record[desc.primary];
                    let own = |one: &[Value]| match other.tenant.zip(desc.tenant) {
                        Some((theirs, ours)) => one[theirs.field] == record[ours.field],
                        None => true,
                    };
                    let live = |one: &[Value]| other.soft_delete.is_none_or(|mark| one[mark.field()].is_null());
                    let counted = records.iter().filter(|one| named(one) && own(one) && live(one) && matches(&when, &***one, &[])).count();
                    if record[field] != Value::Int(counted as i64) {
                        let (key, is) = (&record[desc.primary], &record[field]);
                        return Err(format!(
                            "{} {key:?} keeps {is:?} in {}, and counting {} gives {counted}",
                            desc.name, summary.field, other.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    async fn stored(&self, desc: &'static EntityDesc) -> Vec<Box<[Value]>> {
        let (all, _) = &self.whole[desc.storage_name];
        self.store.run(all, Vec::new(), Rows::records(desc)).rows().await.expect("the contents").records
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

    /// Takes the cursors out of pages, and keeps that of the page itself: others are of what it includes.
    fn unsigned(&mut self, body: String) -> (String, bool) {
        const BEFORE: &str = "\"nextCursor\":\"";
        if !body.contains(BEFORE) {
            return (body, false);
        }
        let page = body.starts_with("{\"items\":[") && body.ends_with("\"hasMore\":true}");
        let mut parts = body.split(BEFORE);
        let mut out = parts.next().unwrap_or_default().to_owned();
        let mut last = "";
        for part in parts {
            let (cursor, rest) = part.split_once('"').expect("the end of a text");
            last = cursor;
            out.push_str(BEFORE);
            out.push_str("SIGNED\"");
            out.push_str(rest);
        }
        if page {
            last.clone_into(&mut self.cursor);
        }
        (out, page)
    }

    /// Gives what the server has made up a name: the number of things it has made up before.
    fn named(&mut self, text: String) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        // Byte by byte, since this looks at all that either side says; what is sought is ASCII.
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
            out.push_str(&rest[..start]);
            rest = &rest[start..];
            let word = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
            let length = if is_uuid(rest) { 36 } else { word };
            let (made, behind) = rest.split_at(length);
            if length == 36 || is_cuid(made) {
                let next = self.names.len();
                out.push_str(self.names.entry(made.to_owned()).or_insert_with(|| format!("made-{next}")));
            } else {
                out.push_str(made);
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }
}

/// A record as it is stored.
struct Stored<'a>(&'a [Value]);

impl Row for Stored<'_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        self.0[field].as_ref()
    }
}

#[test]
fn what_is_made_up_is_told_from_what_is_said() {
    assert!(is_uuid("0193e7a0-0000-7000-8000-00000000000f\","));
    assert!(!is_uuid("0193e7a0-0000-4000-8000-00000000000f") && !is_uuid("0193e7a0-0000-7000-8000-00000000000"));
    assert!(is_cuid("tz4a98xxat96iws9zmbrgj3a") && !is_cuid("9z4a98xxat96iws9zmbrgj3a") && !is_cuid("made"));
}
