//! Checks that no caller receives data of a record that it may not read. The test covers every
//! channel and every SSE path of an app, with users of two tenants, an anonymous caller and a user
//! whose session ends.
//!
//! The REST route `get` decides whether a caller may read a record. The id of a record that it may
//! not read must not occur in any frame, replay, presence list or count that the caller receives.

mod listener;
mod test_app;

use std::collections::{BTreeMap, BTreeSet};

use linchpin_realtime::channel::RoomScope;
use serde_json::{Value as Json, json};

use self::listener::{Listener, check, check_frame, open, open_stream, rooms, until};
use self::test_app::{Caller, ENDPOINTS, TestApp, declared};
use crate::events_client::Events;

/// The position of the caller whose session ends.
const DORA: usize = 3;
/// The number of callers with an account.
const USERS: usize = 4;

/// A record with its owner, as a position among the callers. Every caller may see notices.
struct Record {
    entity: &'static str,
    id: String,
    owner: usize,
}

/// Creates records for a caller: one of each entity, access and status.
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

/// Returns the ids of the records that a caller may not read.
async fn unreadable(caller: &Caller, records: &[Record]) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for record in records {
        let status = caller
            .read_status(&format!("/{}/{}", record.entity, record.id))
            .await;
        if status != 200 {
            assert!([401, 403, 404].contains(&status), "{status}");
            ids.insert(record.id.clone());
        }
    }
    ids
}

/// An open stream of a caller.
struct OpenStream {
    caller: usize,
    path: &'static str,
    events: Events,
    /// The position at which it began.
    start: String,
}

/// All callers, with their open sockets and streams.
struct Scenario {
    test_app: TestApp,
    callers: Vec<Caller>,
    records: Vec<Record>,
    listeners: Vec<Listener>,
    streams: Vec<OpenStream>,
    /// The epoch of each room.
    epochs: BTreeMap<String, Json>,
}

impl Scenario {
    async fn new() -> Self {
        let test_app = TestApp::start().await;
        let callers = vec![
            test_app.user("ada", "one").await,
            test_app.user("bob", "one").await,
            test_app.user("cid", "two").await,
            test_app.user("dora", "one").await,
            test_app.anonymous(),
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
            test_app,
            callers,
            records,
            listeners: Vec::new(),
            streams: Vec::new(),
            epochs: BTreeMap::new(),
        }
    }

    /// Every caller tries to join every room. Exactly the callers that may read the record of the
    /// room succeed.
    async fn join(&mut self) {
        for caller in 0..self.callers.len() {
            for endpoint in ENDPOINTS {
                self.join_all(caller, endpoint).await;
            }
        }
    }

    async fn join_all(&mut self, at: usize, endpoint: &'static str) {
        let caller = &self.callers[at];
        let unreadable = unreadable(caller, &self.records).await;
        let mut listener = Listener::open(&self.test_app, &self.callers, at, endpoint).await;
        let declared = declared();
        for channel in declared.channels() {
            if channel.endpoint != endpoint {
                continue;
            }
            for (room, record) in rooms(channel, &self.records) {
                let join = json!({ "action": "subscribe", "room": room });
                let answer = listener.ask(join).await;
                let joined = answer["event"] == "subscribed";
                let is_readable = match record {
                    Some(id) => !unreadable.contains(id),
                    None => {
                        caller
                            .read_status(&format!("/{}", channel.of.storage_name))
                            .await
                            == 200
                    }
                };
                assert_eq!(joined, is_readable, "{} in {room}: {answer}", caller.name);
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
            check_frame(caller, &unreadable, frame);
        }
        // A connection without a room waits for a token, and ends if none arrives.
        if !listener.joined.is_empty() {
            self.listeners.push(listener);
        }
    }

    /// Every caller opens every stream. A refused stream has the status that the route `list`
    /// returns to the caller.
    async fn open_streams(&mut self) {
        for (at, caller) in self.callers.iter().enumerate() {
            for endpoint in declared().endpoints() {
                match open_stream(&self.test_app, caller, endpoint.path, None).await {
                    Ok((events, start)) => self.streams.push(OpenStream {
                        caller: at,
                        path: endpoint.path,
                        events,
                        start,
                    }),
                    Err(status) => {
                        let mut lists = Vec::new();
                        for source in endpoint.sources {
                            let path = format!("/{}", source.entity.storage_name);
                            lists.push(caller.read_status(&path).await);
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

    /// Ends a session. Its connections end before the next change, and new ones are refused.
    async fn end_session(&mut self) {
        let dora = &self.callers[DORA];
        let id = dora.id.as_ref().unwrap();
        self.test_app.auth.revoke_sessions(id).await.unwrap();
        for mut listener in self.listeners.extract_if(.., |one| one.caller == DORA) {
            let ended = (4401, "session_ended".to_owned());
            assert_eq!(listener.socket.closed().await, ended);
        }
        for mut stream in self.streams.extract_if(.., |one| one.caller == DORA) {
            while let Some(fired) = stream.events.event().await {
                assert_eq!(fired.event, "linchpin:close");
            }
        }
        for endpoint in ENDPOINTS {
            let refused = open(&self.test_app, dora, endpoint).await.err().unwrap();
            assert_eq!((refused.status, &*refused.code), (401, "unauthorized"));
        }
        for endpoint in declared().endpoints() {
            let opened = open_stream(&self.test_app, dora, endpoint.path, None).await;
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
    async fn unreadable_ids(&self) -> Vec<BTreeSet<String>> {
        let mut all = Vec::new();
        for caller in &self.callers {
            all.push(unreadable(caller, &self.records).await);
        }
        all
    }

    /// Returns the changed records of an entity that a caller may read.
    fn readable(&self, unreadable: &BTreeSet<String>, entity: &str) -> BTreeSet<String> {
        let is_changed = |record: &&Record| record.entity == entity && record.owner != DORA;
        let all = self
            .records
            .iter()
            .filter(is_changed)
            .map(|record| &record.id);
        all.filter(|id| !unreadable.contains(*id))
            .cloned()
            .collect()
    }

    /// Checks that every member of a room receives the last change in the room, and that no caller
    /// receives a record that the caller may not read.
    async fn check_received(&mut self, unreadable_ids: &[BTreeSet<String>]) {
        let declared = declared();
        let mut received = BTreeSet::new();
        let mut listeners = std::mem::take(&mut self.listeners);
        for listener in &mut listeners {
            let unreadable = &unreadable_ids[listener.caller];
            for channel in declared.channels() {
                let readable = self.readable(unreadable, channel.of.storage_name);
                for (room, record) in rooms(channel, &self.records) {
                    let about = match record {
                        Some(id) if readable.contains(id) => BTreeSet::from([id.to_owned()]),
                        Some(_) => continue,
                        None => readable.clone(),
                    };
                    if listener.joined.contains(&room) {
                        listener.until_end(&room, &about).await;
                        received.insert(channel.ident);
                    }
                }
            }
            listener.frames.extend(listener.socket.pending().await);
            for room in listener.joined.clone() {
                // A member may know the other members of its room. The answer contains no record
                // id.
                let ask = json!({ "action": "presence", "room": room });
                listener.ask(ask).await;
            }
            for frame in &listener.frames {
                check_frame(&self.callers[listener.caller], unreadable, frame);
                let denial = frame["event"] == "subscribe_denied";
                let room = frame["room"].as_str();
                let joined = room.is_none_or(|room| listener.joined.contains(room));
                assert!(
                    denial || joined,
                    "frame of a room that was not joined: {frame}"
                );
            }
        }
        let all: BTreeSet<&str> = declared.channels().iter().map(|one| one.ident).collect();
        assert_eq!(received, all, "every channel sends a frame");
        let mut sent = BTreeSet::new();
        let mut streams = std::mem::take(&mut self.streams);
        let starts: Vec<(&str, String)> = streams
            .iter()
            .map(|stream| (stream.path, stream.start.clone()))
            .collect();
        for stream in &mut streams {
            let (caller, unreadable) =
                (&self.callers[stream.caller], &unreadable_ids[stream.caller]);
            let endpoint = declared
                .endpoints()
                .iter()
                .find(|one| one.path == stream.path);
            let entity = endpoint.unwrap().sources[0].entity.storage_name;
            let readable = self.readable(unreadable, entity);
            until(&mut stream.events, "end", &readable, |data| {
                check(caller, unreadable, data);
            })
            .await;
            sent.insert(stream.path);
            // Resume from the start of every stream of the path, even from one of another tenant.
            for (_, start) in starts.iter().filter(|(path, _)| *path == stream.path) {
                self.resume(caller, stream.path, start, (unreadable, &readable))
                    .await;
            }
        }
        let all: BTreeSet<&str> = declared.endpoints().iter().map(|one| one.path).collect();
        assert_eq!(sent, all, "every path sends an event");
    }

    /// A stream from another caller's position shows only records that its own caller may read.
    async fn resume(
        &self,
        caller: &Caller,
        path: &str,
        start: &str,
        (unreadable, readable): (&BTreeSet<String>, &BTreeSet<String>),
    ) {
        let opened = open_stream(&self.test_app, caller, path, Some(start)).await;
        let (mut events, _) = opened.unwrap();
        let is_readable = |record: &&Record| readable.contains(&record.id);
        let last = self.records.iter().rfind(is_readable).unwrap();
        let owner = &self.callers[last.owner];
        let title = format!("after {start} for {}", caller.name);
        owner.retitle(last.entity, &last.id, &title).await;
        until(&mut events, &title, readable, |data| {
            check(caller, unreadable, data);
        })
        .await;
    }

    /// Another caller's position grants no access: a replay shows only records that the caller may
    /// read. The room of an unreadable record is refused like a room that does not exist.
    async fn replay(&self, unreadable_ids: &[BTreeSet<String>]) {
        let declared = declared();
        for at in (0..self.callers.len()).filter(|at| *at != DORA) {
            let (caller, unreadable) = (&self.callers[at], &unreadable_ids[at]);
            let mut replayed = 0;
            for endpoint in ENDPOINTS {
                let mut listener =
                    Listener::open(&self.test_app, &self.callers, at, endpoint).await;
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
                        if record.is_some_and(|id| unreadable.contains(id)) {
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
                    check_frame(caller, unreadable, frame);
                }
            }
            assert!(replayed > 0, "{} received no replayed frame", caller.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_frame_or_event_contains_a_record_that_the_caller_may_not_read() {
    let mut scenario = Scenario::new().await;
    scenario.join().await;
    scenario.open_streams().await;
    scenario.end_session().await;
    scenario.change().await;
    let unreadable_ids = scenario.unreadable_ids().await;
    scenario.check_received(&unreadable_ids).await;
    scenario.replay(&unreadable_ids).await;
}
