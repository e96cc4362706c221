//! A message to the browsers of a user.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use linchpin::Timestamp;
use serde_json::{Map, Value as Json, json};

use crate::crypto::encode;
use crate::entity::Urgency;

/// The maximum size of a message as JSON, in bytes.
pub(crate) const MAX_JSON_LENGTH: usize = 3_993;
/// Ends a shortened body.
const ELLIPSIS: char = '…';

/// The importance of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Priority {
    /// It may be late: urgency `low`, kept for 12 hours.
    Low,
    /// Urgency `normal`, kept for 24 hours.
    #[default]
    Normal,
    /// Urgency `high`, kept for 3 days.
    High,
    /// Urgency `high`, also in quiet hours, kept for 24 hours.
    Urgent,
}

impl Priority {
    fn ttl(self) -> Duration {
        match self {
            Self::Low => Duration::from_hours(12),
            Self::Normal | Self::Urgent => Duration::from_hours(24),
            Self::High => Duration::from_hours(72),
        }
    }

    pub(crate) fn urgency(self, is_quiet: bool) -> Urgency {
        match self {
            Self::Urgent => Urgency::High,
            _ if is_quiet => Urgency::Low,
            Self::Low => Urgency::Low,
            Self::Normal => Urgency::Normal,
            Self::High => Urgency::High,
        }
    }
}

/// A message to all browsers of a user, in all tenants. User ids must therefore be unique in the
/// whole app, like those of `linchpin-auth`.
///
/// ```
/// use linchpin_push::{Priority, PushMessage};
///
/// let message = PushMessage::new("user-1", "Your order is on its way")
///     .body("It arrives tomorrow.")
///     .url("/orders/17")
///     .dedup_key("order-17")
///     .priority(Priority::High);
/// # drop(message);
/// ```
#[derive(Clone, Debug)]
pub struct PushMessage {
    pub(crate) user: String,
    title: String,
    body: String,
    icon: Option<String>,
    badge: Option<String>,
    url: String,
    kind: Option<String>,
    dedup_key: Option<String>,
    ttl: Option<Duration>,
    is_quiet: bool,
    priority: Priority,
    pub(crate) notification_id: Option<String>,
    pub(crate) event_id: Option<String>,
    pub(crate) at: Option<Timestamp>,
}

impl PushMessage {
    /// A message to the user with this id.
    pub fn new(user: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            title: title.into(),
            body: String::new(),
            icon: None,
            badge: None,
            url: "/".to_owned(),
            kind: None,
            dedup_key: None,
            ttl: None,
            is_quiet: false,
            priority: Priority::Normal,
            notification_id: None,
            event_id: None,
            at: None,
        }
    }

    /// The text. It is shortened if the message is longer than 3,993 bytes.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// The path that a click opens, on the origin of the app. The default is `/`. A URL that is not
    /// such a path is replaced by `/`.
    #[must_use]
    pub fn url(mut self, path: impl Into<String>) -> Self {
        self.url = path.into();
        self
    }

    /// The URL of an image next to the text.
    #[must_use]
    pub fn icon(mut self, url: impl Into<String>) -> Self {
        self.icon = Some(url.into());
        self
    }

    /// The URL of a small image for the status bar.
    #[must_use]
    pub fn badge(mut self, url: impl Into<String>) -> Self {
        self.badge = Some(url.into());
        self
    }

    /// The kind of the message, for the page that a click opens.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// A newer message of the same key replaces this one, at the push service and on the screen.
    #[must_use]
    pub fn dedup_key(mut self, key: impl Into<String>) -> Self {
        self.dedup_key = Some(key.into());
        self
    }

    /// The importance of the message.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Whether the message falls into the quiet hours of the user. If so, its urgency is `low`,
    /// except for [`Priority::Urgent`].
    #[must_use]
    pub fn quiet(mut self, is_quiet: bool) -> Self {
        self.is_quiet = is_quiet;
        self
    }

    /// The lifetime of the message, in place of the one of its priority. With zero, the message is
    /// shown only if the browser is reachable now. At most 28 days.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl.min(Duration::from_hours(28 * 24)));
        self
    }

    /// The id of the notification that the message announces.
    #[must_use]
    pub fn notification(mut self, id: impl Into<String>) -> Self {
        self.notification_id = Some(id.into());
        self
    }

    /// The event that led to the message. A browser gets only one message for each event.
    #[must_use]
    pub fn event(mut self, id: impl Into<String>) -> Self {
        self.event_id = Some(id.into());
        self
    }

    /// Sends the message at this time, or as soon as possible after it.
    #[must_use]
    pub fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }

    pub(crate) fn ttl_seconds(&self) -> i64 {
        let ttl = self.ttl.unwrap_or_else(|| self.priority.ttl());
        i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX)
    }

    pub(crate) fn urgency(&self) -> Urgency {
        self.priority.urgency(self.is_quiet)
    }

    /// The topic for the push service: a hash of the key, 32 characters long.
    pub(crate) fn topic(&self) -> Option<String> {
        let key = self.dedup_key.as_ref()?;
        let mut topic = encode(digest(&SHA256, key.as_bytes()).as_ref());
        topic.truncate(32);
        Some(topic)
    }

    /// The message as JSON for one delivery. Returns `None` if it is too long even without its
    /// body.
    pub(crate) fn json(&self, delivery: &str) -> Option<String> {
        let whole = self.json_with(delivery, &self.body);
        if whole.len() <= MAX_JSON_LENGTH {
            return Some(whole);
        }
        let without = self.json_with(delivery, "");
        if without.len() > MAX_JSON_LENGTH {
            return None;
        }
        // A character may take several bytes in JSON, so a binary search finds the longest body
        // that fits.
        let ends: Vec<usize> = self.body.char_indices().map(|(at, _)| at).collect();
        let shortened = |count: usize| {
            let end = ends.get(count).copied().unwrap_or(self.body.len());
            let mut body = self.body[..end].trim_end().to_owned();
            body.push(ELLIPSIS);
            self.json_with(delivery, &body)
        };
        let (mut fits, mut too_many) = (0, ends.len().min(MAX_JSON_LENGTH));
        while fits + 1 < too_many {
            let middle = usize::midpoint(fits, too_many);
            if shortened(middle).len() <= MAX_JSON_LENGTH {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        let best = shortened(fits);
        Some(if fits > 0 && best.len() <= MAX_JSON_LENGTH {
            best
        } else {
            without
        })
    }

    fn json_with(&self, delivery: &str, body: &str) -> String {
        let url = if is_path(&self.url) { &self.url } else { "/" };
        let mut data = Map::new();
        data.insert("url".to_owned(), json!(url));
        data.insert("deliveryId".to_owned(), json!(delivery));
        let mut message = Map::new();
        message.insert("title".to_owned(), json!(self.title));
        message.insert("body".to_owned(), json!(body));
        message.insert("url".to_owned(), json!(url));
        // A message that is sent twice has the same tag both times, so the browser shows it once.
        let tag = self.topic().unwrap_or_else(|| delivery.to_owned());
        message.insert("tag".to_owned(), Json::String(tag));
        for (name, value) in [("icon", &self.icon), ("badge", &self.badge)] {
            if let Some(value) = value {
                message.insert(name.to_owned(), json!(value));
            }
        }
        for (name, value) in [
            ("notificationId", &self.notification_id),
            ("type", &self.kind),
        ] {
            if let Some(value) = value {
                data.insert(name.to_owned(), json!(value));
            }
        }
        message.insert("data".to_owned(), Json::Object(data));
        Json::Object(message).to_string()
    }
}

/// Whether a text is a path on the app's own origin: `//host` and `/\host` are other hosts.
fn is_path(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next() == Some(b'/')
        && !matches!(bytes.next(), Some(b'/' | b'\\'))
        && !text.chars().any(|c| c.is_ascii_control() || c == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERY: &str = "0198c5ba-7b5f-7e5a-9d53-7f0f7d6f2a11";

    fn parsed(message: &PushMessage) -> Json {
        serde_json::from_str(&message.json(DELIVERY).unwrap()).unwrap()
    }

    #[test]
    fn the_message_json_has_the_members_that_the_service_worker_reads() {
        let message = PushMessage::new("u", "Title")
            .body("Text")
            .url("/orders/1?tab=2")
            .kind("order")
            .notification("n1");
        assert_eq!(
            parsed(&message),
            json!({
                "title": "Title", "body": "Text", "url": "/orders/1?tab=2", "tag": DELIVERY,
                "data": {
                    "url": "/orders/1?tab=2", "notificationId": "n1",
                    "deliveryId": DELIVERY, "type": "order",
                },
            })
        );
        let message = message.icon("/i.png").badge("/b.png").dedup_key("order-1");
        let json = parsed(&message);
        assert_eq!(
            (&json["icon"], &json["badge"]),
            (&json!("/i.png"), &json!("/b.png"))
        );
        assert_eq!(json["tag"], message.topic().unwrap());
        assert_eq!(message.topic().unwrap().len(), 32);
    }

    #[test]
    fn links_of_messages_must_be_of_the_same_origin() {
        for bad in [
            "",
            "x",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "javascript:1",
            "/\t/evil.example",
            "/a\\b",
            "\\\\evil.example",
        ] {
            let message = PushMessage::new("u", "t").url(bad);
            assert_eq!(parsed(&message)["data"]["url"], "/", "{bad}");
        }
    }

    #[test]
    fn a_long_body_is_shortened_to_the_maximum_size() {
        for body in [
            "x".repeat(10_000),
            "ä€😀\"\n".repeat(2_000),
            "\u{1}".repeat(5_000),
        ] {
            let message = PushMessage::new("u", "t").body(body.clone());
            let text = message.json(DELIVERY).unwrap();
            assert!(
                (MAX_JSON_LENGTH - 8..=MAX_JSON_LENGTH).contains(&text.len()),
                "{}",
                text.len()
            );
            let kept = parsed(&message)["body"].as_str().unwrap().to_owned();
            let kept = kept.strip_suffix(ELLIPSIS).unwrap();
            assert!(body.starts_with(kept));
        }
        let exact = PushMessage::new("u", "t");
        let room = MAX_JSON_LENGTH - exact.json(DELIVERY).unwrap().len();
        let fits = exact.clone().body("x".repeat(room));
        assert_eq!(parsed(&fits)["body"].as_str().unwrap().len(), room);
        let over = exact.body("x".repeat(room + 1));
        assert!(parsed(&over)["body"].as_str().unwrap().ends_with(ELLIPSIS));
        assert_eq!(
            PushMessage::new("u", "t".repeat(MAX_JSON_LENGTH)).json(DELIVERY),
            None
        );
        // No part of the body fits: it is left out.
        let full = PushMessage::new("u", "").json(DELIVERY).unwrap().len();
        let message = PushMessage::new("u", "t".repeat(MAX_JSON_LENGTH - full)).body("body");
        assert_eq!(parsed(&message)["body"], "");
    }

    #[test]
    fn the_priority_sets_urgency_and_lifetime() {
        let urgency_and_ttl = |priority, quiet| {
            let message = PushMessage::new("u", "t").priority(priority).quiet(quiet);
            (message.urgency(), message.ttl_seconds())
        };
        assert_eq!(
            urgency_and_ttl(Priority::Low, false),
            (Urgency::Low, 43_200)
        );
        assert_eq!(
            urgency_and_ttl(Priority::Normal, false),
            (Urgency::Normal, 86_400)
        );
        assert_eq!(
            urgency_and_ttl(Priority::High, false),
            (Urgency::High, 259_200)
        );
        assert_eq!(
            urgency_and_ttl(Priority::Urgent, false),
            (Urgency::High, 86_400)
        );
        for priority in [Priority::Low, Priority::Normal, Priority::High] {
            assert_eq!(urgency_and_ttl(priority, true).0, Urgency::Low);
        }
        assert_eq!(urgency_and_ttl(Priority::Urgent, true).0, Urgency::High);
        let none = PushMessage::new("u", "t").ttl(Duration::ZERO);
        assert_eq!(none.ttl_seconds(), 0);
    }
}
