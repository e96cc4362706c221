//! Checks the values of an endpoint before it is written.

use linchpin::{Problem, Result};
use linchpin_safe_client::{Failure, SafeClient};
use serde_json::Value as Json;

use crate::catalogue::Catalogue;

/// The maximum number of headers of an endpoint, and the maximum length of a name and a value in
/// characters.
const MAX_HEADERS: usize = 10;
const MAX_NAME_LENGTH: usize = 64;
const MAX_VALUE_LENGTH: usize = 1_024;

/// Headers that the sender or the connection sets.
const RESERVED: [&str; 14] = [
    "host",
    "user-agent",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "accept-encoding",
    "http2-settings",
];

/// Checks the URL: its syntax, its host, and every IP address of the host name.
pub(super) async fn url(client: &SafeClient, url: &str) -> Option<Problem> {
    let text = match client.check(url).await {
        Ok(()) => return None,
        Err(Failure::Refused(refusal)) => refusal.to_string(),
        Err(_) => "has a host name that cannot be resolved".to_owned(),
    };
    Some(Problem::new("url", "check", text))
}

/// Checks the entries of `events`: each must match an event of the catalogue.
pub(super) fn events(catalogue: &Catalogue, events: &[String]) -> Vec<Problem> {
    let unknown = events
        .iter()
        .enumerate()
        .filter(|(_, entry)| !catalogue.has(entry));
    unknown
        .map(|(at, _)| {
            Problem::new(
                format!("events.{at}"),
                "enum",
                "matches no event of this app",
            )
        })
        .collect()
}

/// Checks further headers.
pub(super) fn headers(headers: &Json) -> Vec<Problem> {
    let Some(members) = headers.as_object() else {
        return vec![Problem::new(
            "headers",
            "type",
            "must be an object of names and values",
        )];
    };
    if members.len() > MAX_HEADERS {
        return vec![Problem::new(
            "headers",
            "max_items",
            "has at most 10 headers",
        )];
    }
    let mistake = |(name, value): (&String, &Json)| {
        let wrong = |code, text| Some(Problem::new(format!("headers.{name}"), code, text));
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.bytes().all(legal) {
            return wrong("format", "must be 1 to 64 letters, digits and dashes");
        }
        let lower = name.to_ascii_lowercase();
        let own_prefixes = ["content-", "webhook-", "x-webhook-"];
        if RESERVED.contains(&&*lower)
            || own_prefixes.iter().any(|prefix| lower.starts_with(prefix))
        {
            return wrong("not_allowed", "is set by the sender: choose another header");
        }
        let visible = |byte: u8| (0x20..0x7f).contains(&byte);
        match value.as_str() {
            None => wrong("type", "must be a string"),
            Some(text) if text.len() > MAX_VALUE_LENGTH || !text.bytes().all(visible) => {
                wrong("format", "must be at most 1024 visible ASCII characters")
            }
            Some(_) => None,
        }
    };
    members.iter().filter_map(mistake).collect()
}

/// Returns an error if there are problems.
pub(super) fn refuse(problems: Vec<Problem>) -> Result<()> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(linchpin::Error::validation(problems))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_that_break_a_request_are_refused() {
        let wrong = [
            json!([]),
            json!("x"),
            json!({ "": "x" }),
            json!({ "a b": "x" }),
            json!({ "a\r\nb": "x" }),
            json!({ "ä": "x" }),
            json!({ "a": "x\r\ny: z" }),
            json!({ "a": "x\ny" }),
            json!({ "a": "\u{0}" }),
            json!({ "a": "ü" }),
            json!({ "a": "\u{7f}" }),
            json!({ "a": 1 }),
            json!({ "a": null }),
            json!({ "Host": "x" }),
            json!({ "content-TYPE": "x" }),
            json!({ "Webhook-Id": "x" }),
            json!({ "x-Webhook-Event": "x" }),
            json!({ "Transfer-Encoding": "x" }),
            json!({ "user-agent": "x" }),
            json!({ "a".repeat(65): "x" }),
            json!({ "a": "x".repeat(1_025) }),
            (0..11)
                .map(|n| (format!("h{n}"), json!("x")))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        ];
        for headers in wrong {
            assert!(!super::headers(&headers).is_empty(), "{headers}");
        }
        let right = json!({ "Authorization": "Bearer x y", "x-tenant": "~" });
        assert!(headers(&right).is_empty());
    }
}
