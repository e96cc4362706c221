//! Sockets and streams of callers, and checks of the received frames.

use std::collections::BTreeSet;

use linchpin_realtime::channel::{ChannelDesc, RoomScope};
use serde_json::{Value as Json, json};

use super::Record;
use super::test_app::{Caller, TestApp};
use crate::events_client::Events;
use crate::socket::{Refused, Socket};

/// Asserts that a frame contains no id of a record that its receiver may not read. The
/// answer to a refused subscription may contain the room's name, because the receiver sent it.
pub fn check_frame(caller: &Caller, unreadable: &BTreeSet<String>, frame: &Json) {
    let mut frame = frame.clone();
    if frame["event"] == "subscribe_denied" {
        frame["room"] = Json::Null;
    }
    check(caller, unreadable, &frame.to_string());
}

/// Asserts that a text contains no id of a record that its receiver may not read.
pub fn check(caller: &Caller, unreadable: &BTreeSet<String>, text: &str) {
    for id in unreadable {
        assert!(!text.contains(id.as_str()), "{} got {text}", caller.name);
    }
}

/// Returns the rooms of a channel, with the record of each.
pub fn rooms<'a>(channel: &ChannelDesc, records: &'a [Record]) -> Vec<(String, Option<&'a str>)> {
    let (entity, name) = (channel.of.storage_name, channel.name);
    match channel.scope {
        RoomScope::Collection => vec![(format!("{entity}:{name}"), None)],
        RoomScope::Record => records
            .iter()
            .filter(|record| record.entity == entity)
            .map(|record| (format!("{entity}:{}:{name}", record.id), Some(&*record.id)))
            .collect(),
    }
}

/// Opens a socket of a caller. Returns the response if the server refuses it.
pub async fn open(test_app: &TestApp, caller: &Caller, endpoint: &str) -> Result<Socket, Refused> {
    let bearer = caller.bearer();
    let headers = bearer.as_deref().map(|bearer| ("authorization", bearer));
    let mut socket =
        Socket::handshake(test_app.app.address(), endpoint, headers.as_slice()).await?;
    assert_eq!(socket.next().await["event"], "connected");
    Ok(socket)
}

/// Opens a stream of an endpoint. Returns the stream and its first position, or the status if the
/// server refuses it.
pub async fn open_stream(
    test_app: &TestApp,
    caller: &Caller,
    path: &str,
    after: Option<&str>,
) -> Result<(Events, String), u16> {
    let bearer = caller.bearer();
    let headers = bearer
        .iter()
        .map(|bearer| ("authorization", bearer.as_str()));
    let headers: Vec<_> = headers
        .chain(after.map(|after| ("last-event-id", after)))
        .collect();
    let mut events = Events::open(test_app.app.address(), path, &headers).await;
    if events.status != 200 {
        return Err(events.status);
    }
    let first = events.block().await;
    let (_, position) = first.split_once("id: ").expect("a position");
    Ok((events, position.trim_end().to_owned()))
}

/// A socket and all its received frames.
pub struct Listener {
    pub caller: usize,
    pub socket: Socket,
    pub frames: Vec<Json>,
    pub joined: BTreeSet<String>,
}

impl Listener {
    pub async fn open(
        test_app: &TestApp,
        callers: &[Caller],
        caller: usize,
        endpoint: &str,
    ) -> Self {
        Self {
            caller,
            socket: open(test_app, &callers[caller], endpoint).await.unwrap(),
            frames: Vec::new(),
            joined: BTreeSet::new(),
        }
    }

    /// Sends a frame. Returns its answer.
    pub async fn ask(&mut self, mut frame: Json) -> Json {
        frame["ref"] = json!("asked");
        self.socket.send(frame).await;
        loop {
            let frame = self.socket.next().await;
            self.frames.push(frame.clone());
            // The answers of a pending connection contain no reference.
            if frame["ref"] == "asked" || frame["code"] == "UNAUTHENTICATED" {
                return frame;
            }
        }
    }

    /// Reads frames until one of the room is about one of these records and has the title `end`.
    pub async fn until_end(&mut self, room: &str, records: &BTreeSet<String>) {
        let is_end = |frame: &Json| {
            let id = frame["payload"]["id"].as_str().unwrap_or_default();
            frame["room"] == room && frame["payload"]["title"] == "end" && records.contains(id)
        };
        while !self.frames.iter().any(is_end) {
            self.frames.push(self.socket.next().await);
        }
    }
}

/// Reads a stream until an event is about one of these records and has this title.
pub async fn until(
    events: &mut Events,
    title: &str,
    records: &BTreeSet<String>,
    check: impl Fn(&str),
) {
    loop {
        let data = events.event().await.expect("an event").data;
        check(&data);
        let data: Json = serde_json::from_str(&data).unwrap();
        let id = data["id"].as_str().unwrap_or_default();
        if data["title"] == title && records.contains(id) {
            return;
        }
    }
}
