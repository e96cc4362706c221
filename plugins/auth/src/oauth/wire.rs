//! Requests to providers: TLS, a timeout of five seconds, at most one mebibyte, no redirects, JSON.

use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response};
use linchpin::{Error, Result, axum};
use serde::de::DeserializeOwned;
use url::Url;

use super::{Failure, is_safe};
use crate::secret::SecretText;

/// Timeout of a request, including its response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Sends requests to providers.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    client: reqwest::Client,
    loopback: bool,
}

impl Wire {
    /// # Errors
    /// If TLS cannot be set up.
    pub(super) fn new(loopback: bool) -> Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!loopback)
            .build();
        Ok(Self {
            client: client.map_err(Error::internal)?,
            loopback,
        })
    }

    /// Sends a request. A successful response is JSON.
    ///
    /// # Errors
    /// If there is no such response.
    pub(super) async fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, Failure> {
        let mut request =
            reqwest::Request::try_from(request).map_err(|_| Failure("a URL is invalid"))?;
        if !is_safe(request.url(), self.loopback) {
            return Err(Failure("a URL does not use TLS"));
        }
        request
            .headers_mut()
            .insert(USER_AGENT, HeaderValue::from_static("linchpin-auth"));
        let mut answer = self
            .client
            .execute(request)
            .await
            .map_err(|_| Failure("the provider cannot be reached, or is too slow"))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status.is_redirection() {
            return Err(Failure("the provider answered with a redirect"));
        }
        if status.is_success() && !is_json(&headers) {
            return Err(Failure(
                "the provider answered with something other than JSON",
            ));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer
            .chunk()
            .await
            .map_err(|_| Failure("the provider cannot be reached, or is too slow"))?
        {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(Failure("the provider's answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        let mut out = Response::new(body);
        *out.status_mut() = status;
        *out.headers_mut() = headers;
        Ok(out)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If it cannot be read or has another form.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        url: &str,
        token: Option<&SecretText>,
    ) -> Result<T, Failure> {
        let url = Url::parse(url).map_err(|_| Failure("a URL is invalid"))?;
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(url.as_str())
            .header(ACCEPT, "application/json");
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
                .map_err(|_| Failure("the access token is not a valid header value"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let answer = self
            .send(
                request
                    .body(Vec::new())
                    .map_err(|_| Failure("a URL is invalid"))?,
            )
            .await?;
        if !answer.status().is_success() {
            return Err(Failure("the provider refused to answer"));
        }
        serde_json::from_slice(answer.body())
            .map_err(|_| Failure("the provider's answer cannot be read"))
    }
}

/// Whether the type is `application/json` or `application/…+json`, such as
/// `application/jwk-set+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default());
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}
