//! `POST /webhooks/inbound/{provider}`: limits, signature, and the record of the message.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use linchpin::axum::body::{Body, BodyDataStream};
use linchpin::axum::extract::{Path, Request};
use linchpin::axum::response::{IntoResponse, Response};
use linchpin::http::{
    Caller, PluginCall, RateKey, RateLimit, RateReply, RateStore, RateVerdict, Reply, one_client,
};
use linchpin::{Adapters, Code, Cx, Error, Result, Timestamp};
use serde_json::json;

use super::entity::{InboundMessage, InboundMessageCreate};
use super::verify::{Verifier, verify};

/// The most bytes of a body.
const MOST: usize = 1 << 20;
/// The most calls of one address to one provider in a window of 60 seconds.
const CALLS: RateLimit = RateLimit::new(100, 60_000);
/// The longest time for a body to arrive.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most bytes and the longest time that the rest of a refused body is read.
const DRAINED: (usize, Duration) = (4 << 20, Duration::from_secs(2));
/// How long messages are kept.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// The parts of the route.
pub(super) struct Receiver {
    pub(super) providers: HashMap<String, Verifier>,
    pub(super) adapters: Adapters,
    pub(super) rates: Arc<OnceLock<Arc<dyn RateStore>>>,
}

impl Receiver {
    pub(super) async fn answer(&self, Path(provider): Path<String>, request: Request) -> Response {
        match self.receive(&provider, request).await {
            Ok(reply) => reply.into_response(),
            Err(error) => error.into_response(),
        }
    }

    async fn receive(&self, provider: &str, request: Request) -> Result<Reply> {
        let verifier = self.providers.get(provider).ok_or_else(Error::not_found)?;
        let now = self.adapters.now();
        let (parts, body) = request.into_parts();
        // A request whose own credential is invalid has no address: such requests share one counter.
        let from = PluginCall::of(&parts, &[]).ok().and_then(|call| call.from);
        self.count(provider, from, now).await?;
        let body = tokio::time::timeout(PATIENCE, read(body))
            .await
            .map_err(|_| Error::new(Code::Timeout, "The body did not arrive in time"))??;
        let verified = verify(&parts.headers, &body, verifier, now)?;
        let is_new = self
            .store(provider, verified.message_id, &parts.headers, &body, now)
            .await?;
        if is_new {
            Reply::json(200, &json!({ "received": true }))
        } else {
            Reply::json(200, &json!({ "received": true, "duplicate": true }))
        }
    }

    /// Counts a call of an address to a provider.
    async fn count(&self, provider: &str, from: Option<IpAddr>, now: Timestamp) -> Result<()> {
        let rates = self
            .rates
            .get()
            .ok_or_else(|| Error::unavailable("webhooks are not set up"))?;
        let route = format!("webhooks.inbound.{provider}");
        let address = from.map(one_client);
        let key = RateKey {
            route: &route,
            tenant: None,
            caller: address.map_or(Caller::Unknown, Caller::Address),
        };
        let verdict = match rates.count(&key, CALLS, now) {
            RateReply::Ready(verdict) => verdict,
            RateReply::Later(verdict) => verdict.await,
        };
        match verdict.map_err(Error::unavailable)? {
            RateVerdict::Admitted => Ok(()),
            RateVerdict::Refused(wait) => {
                let seconds = u32::try_from(wait.div_ceil(1_000)).unwrap_or(u32::MAX);
                let error = Error::new(Code::RateLimited, "Too many requests");
                Err(error.retry_after(seconds.max(1)))
            }
        }
    }

    /// Writes a message and its event, unless the message is known. Returns whether it is new.
    async fn store(
        &self,
        provider: &str,
        message_id: String,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<bool> {
        let messages = self.adapters.get::<InboundMessage>()?;
        let cx = Cx::system("a received webhook");
        let id = format!("{provider}:{message_id}");
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let text = std::str::from_utf8(body)
            .ok()
            .filter(|text| !text.contains('\0'));
        let record = InboundMessageCreate {
            id: id.clone(),
            provider: provider.to_owned(),
            message_id,
            content_type: content_type.map(str::to_owned),
            body: text.map_or_else(|| STANDARD.encode(body), str::to_owned),
            is_base64: text.is_none(),
            received_at: now,
            expires_at: Some(crate::delivery::later(now, KEPT)),
        };
        let Err(error) = messages.create(&cx, record).await else {
            return Ok(true);
        };
        // Of two requests at the same time, one finds the record of the other.
        if error.code() == Code::Conflict {
            let known = messages.get(&cx, id.as_str()).await;
            if known.map_err(Error::unavailable)?.is_some() {
                return Ok(false);
            }
        }
        Err(Error::unavailable(error))
    }
}

/// Reads a body of at most 1 MiB, counted as it arrives.
async fn read(body: Body) -> Result<Bytes> {
    let mut chunks = body.into_data_stream();
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|_| Error::new(Code::MalformedJson, "The body ended before its end"))?;
        if all.len() + chunk.len() > MOST {
            drain(chunks).await;
            return Err(Error::too_large(Some(MOST as u64)));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.into())
}

/// Discards the rest of a body, so that a client that still sends sees the response.
async fn drain(mut chunks: BodyDataStream) {
    let (most, patience) = DRAINED;
    let rest = async {
        let mut seen = 0;
        while seen < most {
            let Some(Ok(chunk)) = chunks.next().await else {
                return;
            };
            seen += chunk.len();
        }
    };
    // What has not arrived by then is lost.
    drop(tokio::time::timeout(patience, rest).await);
}
