//! One side of the comparison: a whole app on a store, called without a socket.

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

pub use self::callers::{ACTORS, HeaderActor, actor, app};
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
pub const COMPARED_EVENTS: [&str; 5] = [
    "diff_memos",
    "diff_projects",
    "diff_tickets",
    "diff_nodes",
    "diff_findings",
];

/// All entities, including that of idempotency claims.
fn all() -> impl Iterator<Item = &'static EntityDesc> {
    ALL.entities
        .iter()
        .map(|entry| entry.desc)
        .chain([Claims::entity()])
}

/// The events so far, by entity.
type EventsByEntity = Arc<Mutex<HashMap<String, Vec<EntityEvent>>>>;

pub struct Side {
    store: Arc<dyn Store>,
    running: linchpin::Running,
    service: HttpService,
    clock: Arc<AtomicI64>,
    events_so_far: EventsByEntity,
    /// The values that the server has generated, and their names in the comparison.
    names: HashMap<String, String>,
    /// The keys of the records below each path, in the order in which they were first seen.
    known: HashMap<String, Vec<String>>,
    cursor: String,
    /// The number of end markers so far.
    ends: usize,
    /// For each entity: the statement that reads all records, and the one that removes them.
    read_and_remove: HashMap<&'static str, (Arc<Statement>, Arc<Statement>)>,
}

/// A response without the parts that may differ between the sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub text: String,
    /// Whether there is a next page.
    pub more: bool,
}

impl Side {
    pub async fn new(store: Arc<dyn Store>) -> Self {
        let clock = Arc::new(AtomicI64::new(0));
        let (clock_of_app, events_so_far) = (Arc::clone(&clock), EventsByEntity::default());
        let record_events = || {
            let events_so_far = Arc::clone(&events_so_far);
            move |event: EntityEvent| {
                events_so_far
                    .lock()
                    .entry(event.entity.clone().into_owned())
                    .or_default()
                    .push(event);
                async { Ok(()) }
            }
        };
        let (memos, projects, tickets, nodes, findings) = (
            record_events(),
            record_events(),
            record_events(),
            record_events(),
            record_events(),
        );
        let running = App::new(
            Config::new()
                .signing_secret(SECRET)
                .port(0)
                .openapi(false)
                .database("memory:"),
        )
        .store(Arc::clone(&store))
        .plugin(HeaderActor::new())
        .package(&ALL)
        .clock(move || Timestamp::from_millis(clock_of_app.load(Ordering::SeqCst)))
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
        let read_and_remove = all().map(|desc| {
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
        let read_and_remove = read_and_remove.collect();
        let mut side = Self {
            store,
            running,
            service,
            clock,
            events_so_far,
            names,
            known,
            cursor: String::new(),
            ends: 0,
            read_and_remove,
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
            let (_, remove) = &self.read_and_remove[desc.storage_name];
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

    /// The events since the last call, by record. The events of a record are in order; the order
    /// between records is not defined. An end marker for each entity shows that all earlier events
    /// have arrived.
    pub async fn take_events(&mut self) -> String {
        self.ends += 1;
        let end = format!("end-{}", self.ends);
        act::create_end_marker(self.running.adapters(), &self.cx(), &end, self.ends).await;
        let all_in = |events_so_far: &HashMap<String, Vec<EntityEvent>>| {
            COMPARED_EVENTS.iter().all(|entity| {
                events_so_far.get(*entity).is_some_and(|events| {
                    events.iter().any(|e| e.payload.to_string().contains(&end))
                })
            })
        };
        let waited = tokio::time::timeout(Duration::from_mins(1), async {
            while !all_in(&self.events_so_far.lock()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let in_time = waited.await.is_ok();
        let events_so_far = std::mem::take(&mut *self.events_so_far.lock());
        assert!(
            in_time,
            "{}: the last event does not arrive: {events_so_far:?}",
            self.store.name()
        );
        let mut out = String::new();
        for entity in COMPARED_EVENTS {
            let mut ids = BTreeSet::new();
            let mut events: Vec<&EntityEvent> = events_so_far[entity].iter().collect();
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

    /// Runs calls from code, separately or in a transaction.
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

    /// A context of the application itself, with the current instant.
    fn cx(&self) -> Cx {
        Cx::system("a conformance test").at(self.now())
    }

    pub fn advance(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }

    /// Sends a request. If `next` is true, it requests the page that follows the page of the
    /// previous response.
    pub async fn call(&mut self, who: usize, call: &Call, next: bool) -> Answer {
        let mut path = String::new();
        for segment in &call.path {
            path.push('/');
            encode(&self.filled(segment), &mut path);
        }
        let after = next.then(|| ("cursor".to_owned(), "<cursor>".to_owned()));
        let parameters = call
            .query
            .iter()
            .filter(|(name, _)| !next || (name != "cursor" && name != "page"));
        for (i, (name, value)) in parameters.chain(&after).enumerate() {
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
        let (body, more) = self.without_cursors(body);
        let text = self.named(format!("{}\n{body}", headers.concat()));
        Answer {
            status: parts.status.as_u16(),
            text,
            more,
        }
    }

    /// Reads a page by the adapter.
    pub async fn filtered(&mut self, who: usize, filtered_list: &Filtered, next: bool) -> Answer {
        let table = Arc::clone(
            self.running
                .adapters()
                .table(&filtered_list.entity)
                .expect("an entity of the fixture"),
        );
        let filter = Filter::from_json(&filtered_list.filter, table.desc, &[])
            .unwrap_or_else(|e| panic!("{e}: {}", filtered_list.filter));
        let field = filtered_list
            .sort
            .as_ref()
            .map(|wire| table.desc.field_by_wire(wire).expect("a field"));
        let direction = if filtered_list.desc {
            Direction::Desc
        } else {
            Direction::Asc
        };
        let page = PageArgs {
            limit: Some(filtered_list.limit),
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
        if filtered_list.entity == Comment::DESC.storage_name {
            // The parent path contains the team and the document.
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
