//! One side of the comparison: the whole app on a store, called without its socket.

mod callers;
mod contents;
mod names;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use linchpin::entity::{Direction, Entity, EntityDesc, PageArgs};
use linchpin::filter::Filter;
use linchpin::http::{Claims, Endpoint, HttpService, endpoints};
use linchpin::prelude::*;
use linchpin::resource::{Form, ListRequest, Outcome};
use linchpin::store::{Order, Plan, Rows, Statement, Store};
use linchpin::{Cx, EntityEvent, Value};
use parking_lot::Mutex;
use serde_json::Value as Json;
use tower_service::Service;

pub use self::callers::{ACTORS, Believer, actor, app};
use self::text::{describe, encode, encode_value, records};
use super::act::{self, Act, End};
use super::fixture::ALL;
use super::fixture::guarded::{Comment, comment};
use super::fixture::related::{Finding, Memo, Node, Project, Ticket};
use super::sequence::{Call, Filtered};

/// The instant at which every sequence begins.
const START: &str = "2026-03-04T05:06:07.008Z";

const SECRET: &str = "a secret of at least thirty-two bytes";

/// The entities whose events are compared. Events of others are not recorded, because they have no
/// consumer.
pub const TOLD: [&str; 5] = [
    "diff_memos",
    "diff_projects",
    "diff_tickets",
    "diff_nodes",
    "diff_findings",
];

/// Every entity there is, that of the claims included.
fn all() -> impl Iterator<Item = &'static EntityDesc> {
    ALL.entities
        .iter()
        .map(|entry| entry.desc)
        .chain([Claims::entity()])
}

/// The events so far, by entity.
type Told = Arc<Mutex<HashMap<String, Vec<EntityEvent>>>>;

pub struct Side {
    store: Arc<dyn Store>,
    running: linchpin::Running,
    service: HttpService,
    clock: Arc<AtomicI64>,
    told: Told,
    /// The values that the server has generated, and their names in the comparison.
    names: HashMap<String, String>,
    /// Keys below each path, as they were first seen.
    known: HashMap<String, Vec<String>>,
    cursor: String,
    /// Ends of sequences so far.
    ends: usize,
    /// For each entity: the statement that reads all records, and the one that removes them.
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
                told.lock()
                    .entry(event.entity.clone().into_owned())
                    .or_default()
                    .push(event);
                async { Ok(()) }
            }
        };
        let (memos, projects, tickets, nodes, findings) = (hear(), hear(), hear(), hear(), hear());
        let running = App::new(
            Config::new()
                .signing_secret(SECRET)
                .port(0)
                .openapi(false)
                .database("memory:"),
        )
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
            let by_key = vec![Order {
                field: desc.primary,
                desc: false,
            }];
            let limit = Some(linchpin::filter::Source::Value(Value::Int(500)));
            let read = Plan::Select {
                filter: Filter::TRUE,
                order: by_key,
                after: None,
                limit,
            };
            let remove = Plan::Delete {
                filter: Filter::TRUE,
                pick: None,
            };
            let prepared = |plan| store.prepare(desc, plan).expect("a plan");
            (desc.storage_name, (prepared(read), prepared(remove)))
        });
        let whole = whole.collect();
        let mut side = Self {
            store,
            running,
            service,
            clock,
            told,
            names,
            known,
            cursor: String::new(),
            ends: 0,
            whole,
        };
        side.reset().await;
        side
    }

    pub async fn stop(self) {
        self.running.stop().await.expect("stopped");
    }

    pub fn routes(&self) -> Vec<Endpoint> {
        endpoints(&ALL, ALL.mount, self.running.adapters())
    }

    /// Restores the initial state.
    pub async fn reset(&mut self) {
        for desc in all() {
            let (_, remove) = &self.whole[desc.storage_name];
            self.store
                .run(remove, Vec::new(), Rows::count())
                .rows()
                .await
                .expect("emptied");
        }
        self.clock.store(
            Timestamp::parse(START).expect("a date").millis(),
            Ordering::SeqCst,
        );
        self.names.clear();
        self.known.clear();
        "bm90IGEgY3Vyc29y".clone_into(&mut self.cursor);
    }

    /// The events since the last call, by record and in their order; the order between records is
    /// not defined. A last event per entity shows that all earlier ones have arrived.
    pub async fn told(&mut self) -> String {
        self.ends += 1;
        let end = format!("end-{}", self.ends);
        act::mark(self.running.adapters(), &self.cx(), &end, self.ends).await;
        let all_in = |told: &HashMap<String, Vec<EntityEvent>>| {
            TOLD.iter().all(|entity| {
                told.get(*entity).is_some_and(|events| {
                    events.iter().any(|e| e.payload.to_string().contains(&end))
                })
            })
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), async {
            while !all_in(&self.told.lock()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let in_time = waited.await.is_ok();
        let told = std::mem::take(&mut *self.told.lock());
        assert!(
            in_time,
            "{}: the last event does not come: {told:?}",
            self.store.name()
        );
        let mut out = String::new();
        for entity in TOLD {
            let mut ids = BTreeSet::new();
            let mut events: Vec<&EntityEvent> = told[entity].iter().collect();
            events.sort_by_key(|e| {
                self.names
                    .get(e.record_id.as_deref().unwrap_or_default())
                    .or(e.record_id.as_ref())
            });
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
                    e.payload.value(),
                    e.before.as_deref().map(Json::to_string),
                    e.after.as_deref().map(Json::to_string),
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
        let filled: Vec<Act> = acts
            .iter()
            .map(|act| act.filled(|text| self.filled(text)))
            .collect();
        let text = act::run(self.running.adapters(), &self.cx(), &filled, end).await;
        Answer {
            status: 200,
            text: self.named(text),
            more: false,
        }
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

    /// Sends a request; `cursor` continues after an earlier page.
    pub async fn call(&mut self, who: usize, call: &Call, next: bool) -> Answer {
        let mut path = String::new();
        for segment in &call.path {
            path.push('/');
            encode(&self.filled(segment), &mut path);
        }
        let after = next.then(|| ("cursor".to_owned(), "<cursor>".to_owned()));
        let kept = call
            .query
            .iter()
            .filter(|(name, _)| !next || (name != "cursor" && name != "page"));
        for (i, (name, value)) in kept.chain(&after).enumerate() {
            path.push(if i == 0 { '?' } else { '&' });
            encode(name, &mut path);
            path.push('=');
            encode_value(&self.filled(value), &mut path);
        }
        let mut request = Request::builder()
            .method(call.method.as_str())
            .uri(path)
            .header("x-actor", who)
            .header("x-request-id", "conformance");
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
        let request = request
            .body(Body::from(body.unwrap_or_default()))
            .expect("a request");
        let Ok(response) = self.service.clone().call(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let mut headers: Vec<String> = parts
            .headers
            .iter()
            .map(|(n, v)| format!("{n}: {}\n", String::from_utf8_lossy(v.as_bytes())))
            .collect();
        headers.retain(|line| !line.starts_with("content-length:"));
        headers.sort();
        let body = String::from_utf8_lossy(&body).into_owned();
        let (body, more) = self.unsigned(body);
        let text = self.named(format!("{}\n{body}", headers.concat()));
        Answer {
            status: parts.status.as_u16(),
            text,
            more,
        }
    }

    /// A page by the adapter.
    pub async fn filtered(&mut self, who: usize, asked: &Filtered, next: bool) -> Answer {
        let table = Arc::clone(
            self.running
                .adapters()
                .table(&asked.entity)
                .expect("an entity of the fixture"),
        );
        let filter = Filter::from_json(&asked.filter, table.desc, &[])
            .unwrap_or_else(|e| panic!("{e}: {}", asked.filter));
        let field = asked
            .sort
            .as_ref()
            .map(|wire| table.desc.field_by_wire(wire).expect("a field"));
        let direction = if asked.desc {
            Direction::Desc
        } else {
            Direction::Asc
        };
        let page = PageArgs {
            limit: Some(asked.limit),
            cursor: next.then(|| self.cursor.clone()),
            ..PageArgs::default()
        };
        let request = ListRequest {
            page,
            sort: field.map(|f| (f, direction)),
            filter: Some(filter),
            deleted: false,
        };
        let mut cx = Cx::actor(actor(who)).at(self.now());
        if asked.entity == Comment::DESC.storage_name {
            // The parent path contains the document.
            cx = cx
                .within(comment::team_id, 1)
                .within(comment::doc_id, "a".to_owned());
        }
        let outcome = match table.admit(&cx, "list") {
            Ok(()) => table.list(&cx, request, &Form::Records).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Outcome::Page { rows, next_cursor }) => {
                let more = next_cursor.is_some();
                self.cursor = next_cursor.unwrap_or_else(|| self.cursor.clone());
                Answer {
                    status: 200,
                    text: self.named(records(table.desc, rows.records.iter())),
                    more,
                }
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Answer {
                status: 0,
                text: describe(&error),
                more: false,
            },
        }
    }
}
