//! `POST /webhooks/inbound/{provider}`: limits, signature, and the record of the message.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use linchpin::http::{
    AnswerDesc, Caller, PluginCall, PluginRoute, RateKey, RateLimit, RateReply, RateStore,
    RateVerdict, RawBody, Reply, Route, one_client,
};
use linchpin::{Code, Cx, Embedded, Error, Result, Timestamp};

use super::entity::{InboundMessage, InboundMessageCreate};
use super::verify::{INVALID, Verifier, verify};

/// The maximum number of calls of one IP address to one provider in 60 seconds.
const RATE_LIMIT: RateLimit = RateLimit::new(100, 60_000);
/// Messages are kept for this long: 7 days.
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// A message of another service is stored.
#[derive(Embedded)]
pub(super) struct Receipt {
    received: bool,
    /// `true` if the message was received before; else it is omitted.
    duplicate: Option<bool>,
}

/// Requests need no credential except the signature. Their URL may have any query parameters.
static RECEIVE: Route<RawBody> = Route::post("receive", "inbound/{provider}")
    .of("webhooks")
    .doc(
        "Receives a webhook of another service.\n\nThe headers with the signature depend on the provider. \
         The signature covers the bytes of the body. A message whose id is known from the last 7 \
         days is not processed again.",
    )
    .finds_caller()
    .lenient()
    .max_body(1 << 20)
    .answers(&[AnswerDesc::sparse::<Receipt>(200, "The message is stored.")])
    .errors(&[INVALID, Code::NotFound, Code::RateLimited]);

/// The state of the route: the verifiers by provider name, and the counters of the rate limit.
pub(super) struct Receiver {
    pub(super) providers: HashMap<String, Verifier>,
    pub(super) rates: Arc<OnceLock<Arc<dyn RateStore>>>,
}

impl Receiver {
    /// The route.
    pub(super) fn route(self) -> PluginRoute {
        let receiver = Arc::new(self);
        RECEIVE.bind("/webhooks", move |call, body| {
            let receiver = Arc::clone(&receiver);
            async move { receiver.receive(&call, body).await }
        })
    }

    async fn receive(&self, call: &PluginCall, body: RawBody) -> Result<Reply> {
        let provider = call.param(0);
        let verifier = self.providers.get(provider).ok_or_else(Error::not_found)?;
        let now = call.cx.now();
        self.count(provider, call.from, now).await?;
        let body = body.read().await?;
        let verified = verify(&call.headers, &body, verifier, now)?;
        let is_new = store(call, provider, verified.message_id, &body).await?;
        let receipt = Receipt {
            received: true,
            duplicate: (!is_new).then_some(true),
        };
        Reply::sparse(200, &receipt)
    }

    /// Counts a call of an IP address to a provider.
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
        let verdict = match rates.count(&key, RATE_LIMIT, now) {
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
}

/// Writes a message and its event, unless the message is known. Returns whether it is new.
async fn store(call: &PluginCall, provider: &str, message_id: String, body: &[u8]) -> Result<bool> {
    let messages = call.adapters.get::<InboundMessage>()?;
    let cx = Cx::system("a received webhook").at(call.cx.now());
    let id = format!("{provider}:{message_id}");
    let text = std::str::from_utf8(body)
        .ok()
        .filter(|text| !text.contains('\0'));
    let record = InboundMessageCreate {
        id: id.clone(),
        provider: provider.to_owned(),
        message_id,
        content_type: content_type(&call.headers).map(str::to_owned),
        body: text.map_or_else(|| STANDARD.encode(body), str::to_owned),
        is_base64: text.is_none(),
        received_at: cx.now(),
        expires_at: Some(crate::delivery::later(cx.now(), RETENTION)),
    };
    let Err(error) = messages.create(&cx, record).await else {
        return Ok(true);
    };
    // Of two concurrent requests with the same message, the second finds the record of the first.
    if error.code() == Code::Conflict {
        let known = messages.get(&cx, id.as_str()).await;
        if known.map_err(Error::unavailable)?.is_some() {
            return Ok(false);
        }
    }
    Err(Error::unavailable(error))
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
}
