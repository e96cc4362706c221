//! The requests, and the responses without the parts that must differ.

use serde_json::{Map, Value as Json};

use super::probes::Request;
use super::{Known, Sweep};
use crate::server::{Reply, Server};

pub(super) async fn send(s: &Server, sweep: &Sweep, request: &Request) -> Reply {
    let headers: Vec<(&str, &str)> = request
        .headers
        .iter()
        .map(|(n, v)| (*n, v.as_str()))
        .collect();
    let path = format!("{}{}", request.path, request.query);
    self::request(
        s,
        &sweep.caller,
        request.method,
        &path,
        &headers,
        request.body.as_ref(),
    )
    .await
}

pub(super) async fn request(
    s: &Server,
    token: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Json>,
) -> Reply {
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

/// A response without the parts that always differ: the request id, the date, and the values that
/// the caller sent.
pub(super) fn comparable_response(reply: &Reply, known: &Known, cursor: &str) -> String {
    let mut headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    headers.sort();
    let body =
        String::from_utf8_lossy(&reply.body).replace(&reply.header("x-request-id"), "REQUEST");
    let mut text =
        format!("{}\n{}\n\n{body}", reply.status, headers.join("\n")).replace(cursor, "CURSOR");
    for (name, value) in known {
        match value {
            Json::String(value) if value.len() > 4 => text = text.replace(value.as_str(), name),
            Json::Array(list) => {
                let members = list
                    .iter()
                    .filter_map(Json::as_object)
                    .flat_map(Map::values);
                for item in list.iter().chain(members).filter_map(Json::as_str) {
                    text = text.replace(item, name);
                }
            }
            Json::Number(value) if name == "views" => {
                text = text.replace(&format!(":{value}"), ":VIEWS");
            }
            _ => {}
        }
    }
    fresh_ids(&text)
}

/// Replaces the keys of records that the probe itself created, and the cursors, by fixed words.
fn fresh_ids(text: &str) -> String {
    let uuid =
        regex::Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let cursor = regex::Regex::new(r#""nextCursor":"[^"]+""#).unwrap();
    let fresh = regex::Regex::new("fresh[0-9]{6}").unwrap();
    let text = fresh.replace_all(text, "FRESH");
    cursor
        .replace_all(&uuid.replace_all(&text, "UUID"), r#""nextCursor":"SIGNED""#)
        .into_owned()
}
