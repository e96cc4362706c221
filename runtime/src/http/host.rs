//! The host that a request names: HTTP/1.1 asks for exactly one, and proxies that route by it must not read another than we do.

use axum::body::Body;
use axum::http::header::HOST;
use axum::http::{Request, Response, Version};

use super::request_id::RequestId;
use super::response;
use crate::{Error, Problem};

/// The answer to a request without a host, or with several; `None` when there is nothing to refuse.
pub(crate) fn refused<B>(request: &Request<B>) -> Option<Response<Body>> {
    let hosts = request.headers().get_all(HOST).iter().count();
    let problem = match hosts {
        1 => return None,
        0 if request.version() < Version::HTTP_11 => return None,
        0 => Problem::new("header:Host", "required", "is required"),
        _ => Problem::new("header:Host", "duplicate", "must be given once"),
    };
    let id = RequestId::of(request.headers());
    Some(response::error(&Error::invalid(problem), id.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(version: Version, hosts: &[&str]) -> Option<u16> {
        let mut request = Request::builder().version(version).uri("/posts");
        for host in hosts {
            request = request.header(HOST, *host);
        }
        refused(&request.body(()).unwrap_or_default()).map(|r| r.status().as_u16())
    }

    #[test]
    fn exactly_one_host() {
        assert_eq!(status(Version::HTTP_11, &["a"]), None);
        assert_eq!(status(Version::HTTP_11, &[]), Some(400));
        assert_eq!(status(Version::HTTP_11, &["a", "a"]), Some(400));
        assert_eq!(status(Version::HTTP_10, &[]), None);
        assert_eq!(status(Version::HTTP_10, &["a", "b"]), Some(400));
    }
}
