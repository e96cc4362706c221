//! Idempotency: several calls of a route with the same key have one effect and one response.
//!
//! The first call under a key claims the key, runs, and stores its response in the claim. Later
//! calls get that response. The call runs in a separate task, because the future of a request ends
//! with its connection: a claim is finished or released even if the client has left. The writes of
//! generated routes are committed together with the response, so that neither exists without the
//! other.

mod claims;
mod stored;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderMap, HeaderName, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::context;
use super::dispatch;
use super::endpoint::{Action, Endpoint};
use super::protection::protected;
use super::request::{EntityRequest, Request};
use super::request_id::RequestId;
use super::router::Found;
use super::{Idempotency, PolicyDesc};
use crate::EntityEntry;
use crate::operation::Method;
use crate::resource::encode;
use crate::{Actor, Code, Cx, Error, Problem, Result, Value};

pub use claims::Claims;
use claims::{CallId, Claim, ClaimResult};
use stored::{StoredResponse, is_final};

pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The path of problems with the key.
const PATH: &str = "header:Idempotency-Key";
/// The maximum length of a key, in bytes.
const MAX_KEY_LENGTH: usize = 255;
/// The pause before each attempt to store the result of a call.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// Whether an entity has a route with `idempotency`.
pub(crate) fn has_idempotent_route(entry: &EntityEntry) -> bool {
    let own = entry.desc.routes.iter().chain([&entry.desc.defaults]);
    let operations = entry.mounted().map(|spec| &spec.policy);
    let declares = |policy: &PolicyDesc| policy.idempotency.is_some();
    own.chain(operations).any(declares) || entry.routes.iter().any(|route| declares(&route.policy))
}

/// Whether a route supports a key: only routes that may change records do.
pub(crate) fn applies(endpoint: &Endpoint) -> bool {
    match endpoint.action {
        Action::Create | Action::Update | Action::Delete => true,
        Action::List | Action::Get => false,
        Action::Operation(spec, _) => !spec.kind.reads(),
        Action::Extra(_) => endpoint.method != Method::Get,
        // Responses of plugins may contain secrets, which must not be stored.
        Action::Plugin(_) => false,
    }
}

/// Context values in a stable form. The form is stored, so neither another build nor another order
/// of plugins may change it.
fn stable_values(values: &[(&'static str, Value)]) -> Vec<(&'static str, Vec<u8>)> {
    let form = |(name, value): &(&'static str, Value)| {
        let mut bytes = Vec::new();
        encode(value, &mut bytes);
        (*name, bytes)
    };
    let mut all: Vec<_> = values.iter().map(form).collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

/// The calls of a route that may have an idempotency key.
pub(super) struct KeyedCalls {
    route: Box<str>,
    claims: Arc<Claims>,
    policy: Idempotency,
    timeout: Duration,
    /// Whether the writes of the call and its response are committed together.
    in_one_transaction: bool,
    /// The names of the context values that the call's effect depends on.
    context_names: Box<[&'static str]>,
    /// Whether code of the app runs, which may read any context value.
    runs_app_code: bool,
}

/// The result of a call: its response, and the step that its claim still needs.
struct CallResult {
    answer: Result<Response<Body>>,
    claim_step: ClaimStep,
}

enum ClaimStep {
    Nothing,
    Keep(StoredResponse),
    Free,
}

impl KeyedCalls {
    pub(super) fn new(endpoint: &Endpoint, policy: Idempotency, claims: Arc<Claims>) -> Self {
        // A function of the app may change records with its own context. Such a change would wait
        // for the end of this transaction, so only generated routes use one transaction.
        let custom = matches!(endpoint.action, Action::Operation(spec, _) if spec.kind.runs_code());
        // An evaluator is such a function as well, but it runs before the transaction begins.
        let generated =
            endpoint.run.is_none() && !custom && !matches!(endpoint.action, Action::Extra(_));
        Self {
            route: format!("{} {}", endpoint.method.as_str(), endpoint.path).into(),
            in_one_transaction: claims.has_transactions && generated,
            context_names: context::needed(endpoint)
                .iter()
                .map(|desc| desc.name)
                .collect(),
            runs_app_code: !generated,
            claims,
            policy,
            timeout: endpoint.policy.timeout,
        }
    }

    /// Responds to a call whose body has been read.
    ///
    /// # Errors
    /// `validation_failed` for the key; `idempotency_conflict`, `idempotency_in_progress`; the
    /// errors of the route.
    pub(super) async fn run(&self, request: EntityRequest<'_>) -> Result<Response<Body>> {
        let Some(key) = key(&request.head.parts.headers).map_err(Error::invalid)? else {
            if self.policy.required {
                return Err(Error::invalid(Problem::new(
                    PATH,
                    "required",
                    "is required",
                )));
            }
            return dispatch::perform(&request).await;
        };
        let call_id = self.call_id(key, &request);
        let EntityRequest { head, body, cx } = request;
        let (app, parts, id, from) = (
            Arc::clone(head.app),
            head.parts.clone(),
            head.id.clone(),
            head.from,
        );
        let (answering, answer) = oneshot::channel();
        // The task is counted from here on: a stop keeps the store open until the task ends.
        let counted = app.work.subscribe();
        tokio::spawn(async move {
            // The look-up finds the same route again, because a path belongs to one route.
            if let Found::Endpoint(mounted, params) = app.find(&parts.method, parts.uri.path())
                && let Some(keyed) = &mounted.idempotency
            {
                let head = Request {
                    app: &app,
                    mounted,
                    params,
                    parts: &parts,
                    id: &id,
                    from,
                    // The caller is known already.
                    in_process: None,
                };
                let request = EntityRequest { head, body, cx };
                keyed.claim_and_run(request, &call_id, answering).await;
            }
            drop(counted);
        });
        answer.await.map_err(Error::internal)?
    }

    /// The identity of the call: its caller and its content.
    fn call_id(&self, key: &str, request: &EntityRequest<'_>) -> CallId {
        let parts = request.head.parts;
        let anonymous = Actor::anonymous();
        let actor = request.cx.get_actor().map_or(&anonymous, |actor| &**actor);
        let address = request
            .cx
            .address()
            .map(|address| address.to_string())
            .unwrap_or_default();
        let (kind, caller) = match &actor.id {
            Some(id) => (actor.kind.as_str(), id.as_str()),
            None => ("", address.as_str()),
        };
        let identified_by: &[u8] = if actor.id.is_some() {
            b"actor"
        } else {
            b"address"
        };
        let mut identity = PartsDigest::new();
        identity
            .part(self.route.as_bytes())
            .optional(actor.tenant_id.as_deref());
        identity
            .part(identified_by)
            .part(kind.as_bytes())
            .part(caller.as_bytes())
            .part(key.as_bytes());
        let mut content = PartsDigest::new();
        for (name, value) in stable_values(request.cx.context_values()) {
            // A context value that the effect depends on is part of the identity: the same key in
            // another workspace is another call. Other context values, such as the language, are
            // not part of the identity. But code of the app may have read them. Then a call with
            // another value is refused, because a second effect would be worse.
            let part = if self.context_names.contains(&name) {
                &mut identity
            } else if self.runs_app_code {
                &mut content
            } else {
                continue;
            };
            part.part(name.as_bytes()).part(&value);
        }
        content
            .part(parts.method.as_str().as_bytes())
            .part(parts.uri.path().as_bytes())
            .optional(parts.uri.query());
        for name in [CONTENT_TYPE, IF_MATCH] {
            let values: Vec<&[u8]> = parts
                .headers
                .get_all(name)
                .iter()
                .map(axum::http::HeaderValue::as_bytes)
                .collect();
            content.part(&values.len().to_be_bytes());
            for value in values {
                content.part(value);
            }
        }
        content.part(&request.body);
        let timeout = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        CallId {
            id: identity.end(),
            fingerprint: content.end(),
            stale: timeout.saturating_mul(2),
            ttl: self.policy.ttl,
        }
    }

    /// Claims the key, runs the call, and stores its result.
    async fn claim_and_run(
        &self,
        request: EntityRequest<'_>,
        call_id: &CallId,
        answering: oneshot::Sender<Result<Response<Body>>>,
    ) {
        let claim = match self.claims.claim(&request.cx, call_id).await {
            Ok(ClaimResult::Claimed(claim)) => claim,
            // The task continues even if no client waits for the response, here and below.
            Ok(ClaimResult::Stored(stored_response)) => {
                return drop(answering.send(stored_response.replay()));
            }
            Err(error) => return drop(answering.send(Err(error))),
        };
        let ended = if self.in_one_transaction {
            protected(
                self.timeout,
                pin!(self.run_in_transaction(&request, &claim)),
            )
            .await
        } else {
            protected(self.timeout, pin!(self.run_then_store(&request))).await
        };
        let CallResult { answer, claim_step } = match ended.and_then(|ended| ended) {
            Ok(end) => end,
            Err(error) => self.refused(error, request.head.id).await,
        };
        let mut waiting = Some((answering, answer));
        for wait in PAUSES {
            tokio::time::sleep(wait).await;
            match self.update_claim(&request.cx, &claim, &claim_step).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::error!(%error, route = &*self.route, "the result of an idempotent call cannot be stored");
                }
            }
            // The response is correct even if the claim cannot be finished.
            if let Some((answering, answer)) = waiting.take() {
                drop(answering.send(answer));
            }
        }
        if let Some((answering, answer)) = waiting {
            drop(answering.send(answer));
        }
    }

    /// Runs a generated route: its writes and its response are one transaction.
    async fn run_in_transaction(
        &self,
        request: &EntityRequest<'_>,
        claim: &Claim,
    ) -> Result<CallResult> {
        let table = request
            .head
            .mounted
            .endpoint
            .table
            .as_ref()
            .unwrap_or_else(|| self.claims.table());
        let mut retry = table.retry(&request.cx);
        loop {
            let done = retry
                .attempt(&request.cx, async |cx| {
                    self.attempt(cx, request, claim).await
                })
                .await;
            if let Some(done) = retry.finished(done).await {
                return done;
            }
        }
    }

    /// Runs the call in the given transaction. After a conflict with other transactions, the caller
    /// of this function repeats the transaction.
    async fn attempt(
        &self,
        cx: &Cx,
        request: &EntityRequest<'_>,
        claim: &Claim,
    ) -> Result<CallResult> {
        let id = request.head.id;
        let inner = EntityRequest {
            head: request.head,
            cx: cx.clone(),
            body: request.body.clone(),
        };
        let response = dispatch::perform(&inner).await?;
        let (stored_response, response) =
            StoredResponse::of(dispatch::announce(response, cx.first_event()), id.as_str()).await?;
        if !is_final(stored_response.status()) {
            return Ok(CallResult {
                answer: Ok(response),
                claim_step: ClaimStep::Free,
            });
        }
        if self
            .claims
            .finish(cx, claim, &stored_response, self.policy.ttl)
            .await?
        {
            return Ok(CallResult {
                answer: Ok(response),
                claim_step: ClaimStep::Nothing,
            });
        }
        // This call took so long that another call has taken over the claim. The writes of this
        // call are rolled back.
        Err(Error::new(
            Code::IdempotencyInProgress,
            "The request took too long, and another one has taken over its idempotency key",
        )
        .retry_after(1))
    }

    /// Runs a function of the app, then stores its response.
    async fn run_then_store(&self, request: &EntityRequest<'_>) -> Result<CallResult> {
        let id = request.head.id;
        let response = dispatch::perform(request).await?;
        let (stored_response, response) = StoredResponse::of(
            dispatch::announce(response, request.cx.first_event()),
            id.as_str(),
        )
        .await?;
        let claim_step = if is_final(stored_response.status()) {
            ClaimStep::Keep(stored_response)
        } else {
            ClaimStep::Free
        };
        Ok(CallResult {
            answer: Ok(response),
            claim_step,
        })
    }

    /// The result of a call that was refused or failed.
    async fn refused(&self, error: Error, id: &RequestId) -> CallResult {
        let claim_step = match StoredResponse::of_error(&error, id.as_str()).await {
            Ok(stored_response) if is_final(stored_response.status()) => {
                ClaimStep::Keep(stored_response)
            }
            _ => ClaimStep::Free,
        };
        CallResult {
            answer: Err(error),
            claim_step,
        }
    }

    async fn update_claim(&self, cx: &Cx, claim: &Claim, claim_step: &ClaimStep) -> Result<()> {
        match claim_step {
            ClaimStep::Nothing => Ok(()),
            ClaimStep::Keep(stored_response) => self
                .claims
                .finish(cx, claim, stored_response, self.policy.ttl)
                .await
                .map(drop),
            ClaimStep::Free => self.claims.release(cx, claim).await,
        }
    }
}

/// The key of a request, if it has one.
///
/// # Errors
/// `validation_failed` if the header is not a valid key.
fn key(headers: &HeaderMap) -> std::result::Result<Option<&str>, Problem> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::new(PATH, "duplicate", "must be given once"));
    }
    let bytes = value.as_bytes();
    if bytes.is_empty() {
        return Err(Problem::new(PATH, "min_length", "must not be empty"));
    }
    if bytes.len() > MAX_KEY_LENGTH {
        return Err(Problem::new(
            PATH,
            "max_length",
            "must have at most 255 characters",
        ));
    }
    match std::str::from_utf8(bytes) {
        Ok(key) if bytes.iter().all(u8::is_ascii_graphic) => Ok(Some(key)),
        _ => Err(Problem::new(
            PATH,
            "format",
            "must be visible ASCII characters",
        )),
    }
}

/// A digest of several parts. The length of each part is included, so that different parts never
/// have the same digest.
struct PartsDigest(Sha256);

impl PartsDigest {
    fn new() -> Self {
        Self(Sha256::new())
    }

    fn part(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    fn optional(&mut self, text: Option<&str>) -> &mut Self {
        self.part(&[u8::from(text.is_some())])
            .part(text.unwrap_or_default().as_bytes())
    }

    fn end(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_header_of_at_most_255_visible_ascii_characters() {
        let read = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(KEY, axum::http::HeaderValue::from_bytes(value).unwrap());
            }
            key(&headers)
                .map(|key| key.map(str::to_owned))
                .map_err(|problem| problem.code)
        };
        let longest = [b'k'; 255];
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[b"!a~"]), Ok(Some("!a~".to_owned())));
        assert!(read(&[&longest]).is_ok());
        assert_eq!(read(&[&[b'k'; 256]]), Err("max_length"));
        assert_eq!(read(&[b""]), Err("min_length"));
        for bad in [&b"a b"[..], b"a\tb", "é".as_bytes(), b"\xff"] {
            assert_eq!(read(&[bad]), Err("format"), "{bad:?}");
        }
        assert_eq!(read(&[b"a", b"a"]), Err("duplicate"));
    }

    #[test]
    fn context_values_have_one_digest_in_any_order() {
        let (locale, level) = (
            ("locale", Value::Text("de".to_owned())),
            ("level", Value::Int(7)),
        );
        let forms = stable_values(&[locale.clone(), level.clone()]);
        assert_eq!(forms, stable_values(&[level, locale]));
        assert_eq!(
            forms,
            [
                ("level", vec![2, 7, 0, 0, 0, 0, 0, 0, 0]),
                ("locale", vec![4, 2, 0, 0, 0, b'd', b'e'])
            ]
        );
    }

    #[test]
    fn digest_parts_are_separated() {
        let digest = |parts: &[&str]| {
            let mut digest = PartsDigest::new();
            for part in parts {
                digest.part(part.as_bytes());
            }
            digest.end()
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["ab"]), digest(&["ab", ""]));
        assert_eq!(digest(&["ab"]), digest(&["ab"]));
    }
}
