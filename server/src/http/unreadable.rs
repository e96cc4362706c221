//! Requests that are not valid HTTP are refused before routing, with the same error body as all
//! others.

use super::request_id::RequestId;
use super::response::error_body;
use crate::{Code, Error};

/// The complete response instead of the HTTP library's refusal, which has no body; `None` if the
/// bytes are not such a refusal.
///
/// The library's refusals are a head without a body: `HTTP/1.1 400 Bad Request`, a length of 0, a
/// date.
pub(crate) fn with_error_body(refusal: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(refusal)
        .ok()?
        .strip_suffix("\r\n\r\n")?;
    let (status_line, headers) = head.split_once("\r\n")?;
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| status_line.strip_prefix("HTTP/1.0 "))?
        .get(..3)?;
    let error = match status {
        "400" => Error::new(
            Code::ValidationFailed,
            "The request is not well-formed HTTP",
        ),
        "414" => Error::new(Code::UriTooLong, "The address is too long"),
        "431" => Error::new(
            Code::Other(431, "headers_too_large"),
            "The headers are too many or too long",
        ),
        _ => return None,
    };
    if !headers
        .split("\r\n")
        .any(|line| line.eq_ignore_ascii_case("content-length: 0"))
    {
        return None;
    }
    let kept_headers = headers.split("\r\n").filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !["content-length", "connection"]
            .iter()
            .any(|ours| name.eq_ignore_ascii_case(ours))
    });
    Some(closing_response(status_line, kept_headers, &error))
}

/// The response to a connection above the limit per address.
pub(crate) fn too_many_connections() -> Vec<u8> {
    let error = Error::new(Code::Unavailable, "Too many connections from this address");
    closing_response(
        "HTTP/1.1 503 Service Unavailable",
        std::iter::once("retry-after: 1"),
        &error,
    )
}

/// A response that closes its connection.
fn closing_response<'a>(
    status_line: &str,
    headers: impl Iterator<Item = &'a str>,
    error: &Error,
) -> Vec<u8> {
    let id = RequestId::generate();
    let body = error_body(error, id.as_str());
    let mut out = Vec::with_capacity(body.len() + 256);
    out.extend_from_slice(status_line.as_bytes());
    for line in headers {
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(line.as_bytes());
    }
    out.extend_from_slice(b"\r\nconnection: close\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\nx-request-id: ");
    out.extend_from_slice(id.as_str().as_bytes());
    out.extend_from_slice(b"\r\ncontent-length: ");
    out.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(&body);
    out
}

#[cfg(test)]
mod tests {
    use super::with_error_body;

    #[test]
    fn refusals_of_the_http_library_get_a_body() {
        for (status, code) in [
            ("400 Bad Request", "validation_failed"),
            ("414 URI Too Long", "uri_too_long"),
            ("431 Request Header Fields Too Large", "headers_too_large"),
        ] {
            let refusal = format!(
                "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\ndate: today\r\n\r\n"
            );
            let response = with_error_body(refusal.as_bytes())
                .and_then(|response| String::from_utf8(response).ok())
                .unwrap_or_default();
            let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
            assert!(
                head.starts_with(&format!(
                    "HTTP/1.1 {status}\r\ndate: today\r\nconnection: close\r\n"
                )),
                "{response}"
            );
            assert!(
                head.ends_with(&format!("content-length: {}", body.len())),
                "{response}"
            );
            let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
            assert_eq!(body["code"], code);
            assert!(
                body["requestId"]
                    .as_str()
                    .is_some_and(|id| head.contains(id))
            );
        }
    }

    #[test]
    fn other_responses_are_not_changed() {
        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 400",
            "",
        ] {
            assert_eq!(with_error_body(other.as_bytes()), None, "{other}");
        }
    }
}
