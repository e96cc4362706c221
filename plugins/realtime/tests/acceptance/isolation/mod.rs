//! No caller receives data of a record that it may not read: every channel and every SSE path of an
//! app, for users of two tenants, an anonymous visitor and an ended session.
//!
//! The REST route `get` decides whether a caller may read a record. A record that it may not read
//! must not occur in anything that the caller receives: no frame, no replay, no presence, no count.

mod bed;
mod listen;

use std::collections::{BTreeMap, BTreeSet};

use linchpin_realtime::channel::RoomScope;
use serde_json::{Value as Json, json};

use self::bed::{Bed, Caller, ENDPOINTS, declared};
use self::listen::{Listener, check, check_frame, open, rooms, stream, until};
use crate::events_client::Events;

/// The position of the caller whose session ends, and the number of callers with an account.
const DORA: usize = 3;
const USERS: usize = 4;

/// A record with its owner, as a position among the callers. Every caller may see notices.
struct Record {
    entity: &'static str,
    id: String,
    owner: usize,
}

/// Creates a record of each form for a caller.
async fn create(callers: &[Caller], owner: usize, records: &mut Vec<Record>) {
    let caller = &callers[owner];
    let user = caller.id.as_deref().unwrap();
    let mut add = |entity, id: &str| {
        let id = id.to_owned();
        records.push(Record { entity, id, owner });
    };
    for access in ["open", "closed"] {
        let space = json!({ "ownerId": user, "title": "new", "access": access });
        let space = caller.create("spaces", space).await;
        add("spaces", &space);
        for status in ["draft", "published"] {
            let page = json!({
                "spaceId": space, "ownerId": user, "title": "new", "status": status,
            });
            add("pages", &caller.create("pages", page).await);
        }
    }
    add(
        "memos",
        &caller.create("memos", json!({ "title": "new" })).await,
    );
}

/// The ids of the records that a caller may not read.
async fn refused(caller: &Caller, records: &[Record]) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for record in records {
        let status = caller
            .reads(&format!("/{}/{}", record.entity, record.id))
            .await;
        if status != 200 {
            assert!([401, 403, 404].contains(&status), "{status}");
            ids.insert(record.id.clone());
        }
    }
    ids
}

/// An open stream of a caller.
struct Flow {
    caller: usize,
    path: &'static str,
    events: Events,
    /// The position at which it began.
    start: String,
}

/// All callers, with their open sockets and streams.
struct Sweep {
    bed: Bed,
    callers: Vec<Caller>,
    records: Vec<Record>,
    listeners: Vec<Listener>,
    flows: Vec<Flow>,
    /// The epoch of each room.
    epochs: BTreeMap<String, Json>,
}

impl Sweep {
    async fn new() -> Self {
        let bed = Bed::start().await;
        let callers = vec![
            bed.user("ada", "one").await,
            bed.user("bob", "one").await,
            bed.user("cid", "two").await,
            bed.user("dora", "one").await,
            bed.visitor(),
        ];
        let mut records = Vec::new();
        for owner in 0..USERS {
            create(&callers, owner, &mut records).await;
        }
        let notice = json!({ "title": "new" });
        records.push(Record {
            entity: "notices",
            id: callers[0].create("notices", notice).await,
            owner: 0,
        });
        Self {
            bed,
            callers,
            records,
            listeners: Vec::new(),
            flows: Vec::new(),
            epochs: BTreeMap::new(),
        }
    }

    /// Every caller tries to join every room. Exactly the callers that may read its record succeed.
    async fn join(&mut self) {
        for caller in 0..self.callers.len() {
            for endpoint in ENDPOINTS {
                self.join_all(caller, endpoint).await;
            }
        }
    }

    async fn join_all(&mut self, at: usize, endpoint: &'static str) {
        let caller = &self.callers[at];
        let refused = refused(caller, &self.records).await;
        let mut listener = Listener::open(&self.bed, &self.callers, at, endpoint).await;
        let declared = declared();
        for channel in declared.channels() {
            if channel.endpoint != endpoint {
                continue;
            }
            for (room, record) in rooms(channel, &self.records) {
                let join = json!({ "action": "subscribe", "room": room });
                let answer = listener.ask(join).await;
                let joined = answer["event"] == "subscribed";
                let may = match record {
                    Some(id) => !refused.contains(id),
                    None => caller.reads(&format!("/{}", channel.of.storage_name)).await == 200,
                };
                assert_eq!(joined, may, "{} in {room}: {answer}", caller.name);
                if joined {
                    listener.joined.insert(room.clone());
                    self.epochs.insert(room, answer["epoch"].clone());
                } else {
                    let ask = json!({ "action": "presence", "room": room });
                    let answer = listener.ask(ask).await;
                    assert_eq!(answer["event"], "ws:error", "{answer}");
                    assert!(answer.get("count").is_none(), "{answer}");
                }
            }
        }
        for frame in &listener.frames {
            check_frame(caller, &refused, frame);
        }
        // A connection in no room waits for a token, and ends if none comes.
        if !listener.joined.is_empty() {
            self.listeners.push(listener);
        }
    }

    /// Every caller opens every stream. A refusal has the status that the route `list` returns.
    async fn flow(&mut self) {
        for (at, caller) in self.callers.iter().enumerate() {
            for endpoint in declared().endpoints() {
                match stream(&self.bed, caller, endpoint.path, None).await {
                    Ok((events, start)) => self.flows.push(Flow {
                        caller: at,
                        path: endpoint.path,
                        events,
                        start,
                    }),
                    Err(status) => {
                        let mut lists = Vec::new();
                        for source in endpoint.sources {
                            let path = format!("/{}", source.entity.storage_name);
                            lists.push(caller.reads(&path).await);
                        }
                        let name = caller.name;
                        assert!(
                            lists.contains(&status),
                            "{name} in {}: {status}",
                            endpoint.path
                        );
                    }
                }
            }
        }
    }

    /// Ends a session: its connections end before the next change, and it can open no new one.
    async fn end_session(&mut self) {
        let dora = &self.callers[DORA];
        let id = dora.id.as_ref().unwrap();
        self.bed.auth.revoke_sessions(id).await.unwrap();
        for mut listener in self.listeners.extract_if(.., |one| one.caller == DORA) {
            let ended = (4401, "session_ended".to_owned());
            assert_eq!(listener.socket.closed().await, ended);
        }
        for mut flow in self.flows.extract_if(.., |one| one.caller == DORA) {
            while let Some(fired) = flow.events.event().await {
                assert_eq!(fired.event, "linchpin:close");
            }
        }
        for endpoint in ENDPOINTS {
            let refused = open(&self.bed, dora, endpoint).await.err().unwrap();
            assert_eq!((refused.status, &*refused.code), (401, "unauthorized"));
        }
        for endpoint in declared().endpoints() {
            let opened = stream(&self.bed, dora, endpoint.path, None).await;
            assert_eq!(opened.err(), Some(401));
        }
    }

    /// Creates and changes records of all other callers. The last change sets the title `end`.
    async fn change(&mut self) {
        for owner in (0..USERS).filter(|owner| *owner != DORA) {
            create(&self.callers, owner, &mut self.records).await;
        }
        for title in ["changed", "end"] {
            for record in self.records.iter().filter(|record| record.owner != DORA) {
                let owner = &self.callers[record.owner];
                owner.retitle(record.entity, &record.id, title).await;
            }
        }
    }

    /// Returns, for each caller, the ids of the records that it may not read.
    async fn refusals(&self) -> Vec<BTreeSet<String>> {
        let mut all = Vec::new();
        for caller in &self.callers {
            all.push(refused(caller, &self.records).await);
        }
        all
    }

    /// The changed records of an entity that a caller may read.
    fn shown(&self, refused: &BTreeSet<String>, entity: &str) -> BTreeSet<String> {
        let of = |record: &&Record| record.entity == entity && record.owner != DORA;
        let all = self.records.iter().filter(of).map(|record| &record.id);
        all.filter(|id| !refused.contains(*id)).cloned().collect()
    }

    /// Every member of a room gets its last change, and nothing that it may not read.
    async fn hear(&mut self, refusals: &[BTreeSet<String>]) {
        let declared = declared();
        let mut heard = BTreeSet::new();
        let mut listeners = std::mem::take(&mut self.listeners);
        for listener in &mut listeners {
            let refused = &refusals[listener.caller];
            for channel in declared.channels() {
                let shown = self.shown(refused, channel.of.storage_name);
                for (room, record) in rooms(channel, &self.records) {
                    let about = match record {
                        Some(id) if shown.contains(id) => BTreeSet::from([id.to_owned()]),
                        Some(_) => continue,
                        None => shown.clone(),
                    };
                    if listener.joined.contains(&room) {
                        listener.until_end(&room, &about).await;
                        heard.insert(channel.ident);
                    }
                }
            }
            listener.frames.extend(listener.socket.pending().await);
            for room in listener.joined.clone() {
                // A member may know the other members of its room. The answer names no record.
                let ask = json!({ "action": "presence", "room": room });
                listener.ask(ask).await;
            }
            for frame in &listener.frames {
                check_frame(&self.callers[listener.caller], refused, frame);
                let told = frame["event"] == "subscribe_denied";
                let room = frame["room"].as_str();
                let own = room.is_none_or(|room| listener.joined.contains(room));
                assert!(told || own, "a frame of another room: {frame}");
            }
        }
        let all: BTreeSet<&str> = declared.channels().iter().map(|one| one.ident).collect();
        assert_eq!(heard, all, "a channel of which nobody heard anything");
        let mut flowed = BTreeSet::new();
        let mut flows = std::mem::take(&mut self.flows);
        let starts: Vec<(&str, String)> = flows
            .iter()
            .map(|flow| (flow.path, flow.start.clone()))
            .collect();
        for flow in &mut flows {
            let (caller, refused) = (&self.callers[flow.caller], &refusals[flow.caller]);
            let endpoint = declared
                .endpoints()
                .iter()
                .find(|one| one.path == flow.path);
            let entity = endpoint.unwrap().sources[0].entity.storage_name;
            let shown = self.shown(refused, entity);
            until(&mut flow.events, "end", &shown, |data| {
                check(caller, refused, data);
            })
            .await;
            flowed.insert(flow.path);
            // Resume from the start of every stream of the path, also from one of another tenant.
            for (_, start) in starts.iter().filter(|(path, _)| *path == flow.path) {
                self.resume(caller, flow.path, start, (refused, &shown))
                    .await;
            }
        }
        let all: BTreeSet<&str> = declared.endpoints().iter().map(|one| one.path).collect();
        assert_eq!(flowed, all, "a path on which nobody heard anything");
    }

    /// A stream from another caller's position shows only records that its own caller may read.
    async fn resume(
        &self,
        caller: &Caller,
        path: &str,
        start: &str,
        (refused, shown): (&BTreeSet<String>, &BTreeSet<String>),
    ) {
        let opened = stream(&self.bed, caller, path, Some(start)).await;
        let (mut events, _) = opened.unwrap();
        let of = |record: &&Record| shown.contains(&record.id);
        let last = self.records.iter().rfind(of).unwrap();
        let owner = &self.callers[last.owner];
        let title = format!("after {start} for {}", caller.name);
        owner.retitle(last.entity, &last.id, &title).await;
        until(&mut events, &title, shown, |data| {
            check(caller, refused, data);
        })
        .await;
    }

    /// Another caller's position grants no access: a replay shows only records that the caller may
    /// read. The room of another record is refused like a room that does not exist.
    async fn replay(&self, refusals: &[BTreeSet<String>]) {
        let declared = declared();
        for at in (0..self.callers.len()).filter(|at| *at != DORA) {
            let (caller, refused) = (&self.callers[at], &refusals[at]);
            let mut replayed = 0;
            for endpoint in ENDPOINTS {
                let mut listener = Listener::open(&self.bed, &self.callers, at, endpoint).await;
                for channel in declared.channels() {
                    if channel.endpoint != endpoint {
                        continue;
                    }
                    let name = format!("{}:missing:{}", channel.of.storage_name, channel.name);
                    let missing = json!({ "action": "subscribe", "room": name });
                    let missing = match channel.scope {
                        RoomScope::Record => listener.ask(missing).await,
                        RoomScope::Collection => Json::Null,
                    };
                    for (room, record) in rooms(channel, &self.records) {
                        let epoch = self.epochs.get(&room).cloned();
                        let epoch = epoch.unwrap_or_else(|| json!("AAAAAAAAAAAAAAAA"));
                        let join = json!({
                            "action": "subscribe", "room": room,
                            "since": { "epoch": epoch, "offset": 0 },
                        });
                        let answer = listener.ask(join).await;
                        replayed += answer["replayed"].as_u64().unwrap_or_default();
                        if record.is_some_and(|id| refused.contains(id)) {
                            let mut expected = missing.clone();
                            if answer.get("room").is_some() {
                                expected["room"] = answer["room"].clone();
                            }
                            assert_eq!(answer, expected, "{} in {room}", caller.name);
                        }
                    }
                }
                if caller.id.is_some() {
                    listener.frames.extend(listener.socket.pending().await);
                }
                for frame in &listener.frames {
                    check_frame(caller, refused, frame);
                }
            }
            assert!(replayed > 0, "{} replays nothing", caller.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_hears_of_a_record_that_a_read_refuses() {
    let mut sweep = Sweep::new().await;
    sweep.join().await;
    sweep.flow().await;
    sweep.end_session().await;
    sweep.change().await;
    let refusals = sweep.refusals().await;
    sweep.hear(&refusals).await;
    sweep.replay(&refusals).await;
}
