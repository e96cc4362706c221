//! Idempotency: calls of a route under one key have one effect and one answer.
//!
//! The first call under a key claims the key, runs, and stores its response in the claim. Later
//! calls get that response. The work runs in a task of its own, because the future of a request
//! ends with its connection: a claim is finished or released even if the client has left. The
//! writes of generated routes are committed together with the response, so that neither exists
//! without the other.

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
use stored::{StoredResponse, settles};

pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The path of problems with the key.
const PATH: &str = "header:Idempotency-Key";
/// Longest key.
const LONGEST: usize = 255;
/// How long to wait before each attempt to write down how a call ended.
const WAITS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// Whether an entity has a route whose calls can be repeated.
pub(crate) fn wanted(entry: &EntityEntry) -> bool {
    let own = entry.desc.routes.iter().chain([&entry.desc.defaults]);
    let operations = entry.mounted().map(|spec| &spec.policy);
    let declares = |policy: &PolicyDesc| policy.idempotency.is_some();
    own.chain(operations).any(declares) || entry.routes.iter().any(|route| declares(&route.policy))
}

/// Whether a key means anything on a route: it changes something.
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
    together: bool,
    /// The names of the context values that the call's effect depends on.
    context_names: Box<[&'static str]>,
    /// Whether code of the user's runs, which may read any of them.
    code: bool,
}

/// The end of a call: its response, and the part of it that is still to be stored.
struct End {
    answer: Result<Response<Body>>,
    left: Left,
}

enum Left {
    Nothing,
    Keep(StoredResponse),
    Free,
}

impl KeyedCalls {
    pub(super) fn new(endpoint: &Endpoint, policy: Idempotency, claims: Arc<Claims>) -> Self {
        // A function of the app may call with its own context, which would wait for the end of the
        // transaction.
        let custom = matches!(endpoint.action, Action::Operation(spec, _) if spec.kind.runs_code());
        // An evaluator is such a function as well, but it runs before the transaction begins.
        let generated =
            endpoint.run.is_none() && !custom && !matches!(endpoint.action, Action::Extra(_));
        Self {
            route: format!("{} {}", endpoint.method.as_str(), endpoint.path).into(),
            together: claims.transacts && generated,
            context_names: context::needed(endpoint)
                .iter()
                .map(|desc| desc.name)
                .collect(),
            code: !generated,
            claims,
            policy,
            timeout: endpoint.policy.timeout,
        }
    }

    /// Answers a call, its body read.
    ///
    /// # Errors
    /// `validation_failed` for the key; `idempotency_conflict`, `idempotency_in_progress`; whatever
    /// the route answers.
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
        let ask = self.ask(key, &request);
        let EntityRequest { head, body, cx } = request;
        let (app, parts, id, from) = (
            Arc::clone(head.app),
            head.parts.clone(),
            head.id.clone(),
            head.from,
        );
        let (answering, answer) = oneshot::channel();
        // Counted from here on: shutdown keeps the store open until the task ends.
        let counted = app.work.subscribe();
        tokio::spawn(async move {
            // The same route: a path belongs to one route.
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
                keyed.work(request, &ask, answering).await;
            }
            drop(counted);
        });
        answer.await.map_err(Error::internal)?
    }

    /// The identity of the call: its caller and its content.
    fn ask(&self, key: &str, request: &EntityRequest<'_>) -> CallId {
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
        let known: &[u8] = if actor.id.is_some() {
            b"actor"
        } else {
            b"address"
        };
        let mut of = Digested::new();
        of.part(self.route.as_bytes())
            .optional(actor.tenant_id.as_deref());
        of.part(known)
            .part(kind.as_bytes())
            .part(caller.as_bytes())
            .part(key.as_bytes());
        let mut what = Digested::new();
        for (name, value) in stable_values(request.cx.context_values()) {
            // A context value that the effect depends on is part of the identity: the same key in
            // another workspace is another call. Any other context value, such as the language, is
            // not. But code of the app may have read it. Then a call with another value is refused,
            // because a second effect would be worse.
            let part = if self.context_names.contains(&name) {
                &mut of
            } else if self.code {
                &mut what
            } else {
                continue;
            };
            part.part(name.as_bytes()).part(&value);
        }
        what.part(parts.method.as_str().as_bytes())
            .part(parts.uri.path().as_bytes())
            .optional(parts.uri.query());
        for name in [CONTENT_TYPE, IF_MATCH] {
            let values: Vec<&[u8]> = parts
                .headers
                .get_all(name)
                .iter()
                .map(axum::http::HeaderValue::as_bytes)
                .collect();
            what.part(&values.len().to_be_bytes());
            for value in values {
                what.part(value);
            }
        }
        what.part(&request.body);
        let timeout = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        CallId {
            id: of.end(),
            fingerprint: what.end(),
            stale: timeout.saturating_mul(2),
            ttl: self.policy.ttl,
        }
    }

    /// Claims, runs, and writes down how it ended.
    async fn work(
        &self,
        request: EntityRequest<'_>,
        ask: &CallId,
        answering: oneshot::Sender<Result<Response<Body>>>,
    ) {
        let claim = match self.claims.claim(&request.cx, ask).await {
            Ok(ClaimResult::Claimed(claim)) => claim,
            // The task continues even if no client waits for the response, here and below.
            Ok(ClaimResult::Stored(kept)) => return drop(answering.send(kept.replay())),
            Err(error) => return drop(answering.send(Err(error))),
        };
        let ended = if self.together {
            protected(self.timeout, pin!(self.together(&request, &claim))).await
        } else {
            protected(self.timeout, pin!(self.apart(&request))).await
        };
        let End { answer, left } = match ended.and_then(|ended| ended) {
            Ok(end) => end,
            Err(error) => self.refused(error, request.head.id).await,
        };
        let mut waiting = Some((answering, answer));
        for wait in WAITS {
            tokio::time::sleep(wait).await;
            match self.settle(&request.cx, &claim, &left).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::error!(%error, route = &*self.route, "how an idempotent call ended cannot be written down yet");
                }
            }
            // The answer is true whatever becomes of the claim.
            if let Some((answering, answer)) = waiting.take() {
                drop(answering.send(answer));
            }
        }
        if let Some((answering, answer)) = waiting {
            drop(answering.send(answer));
        }
    }

    /// Runs a generated route: its writes and its response are one transaction.
    async fn together(&self, request: &EntityRequest<'_>, claim: &Claim) -> Result<End> {
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

    /// Within a transaction, which is begun again when others got in between.
    async fn attempt(&self, cx: &Cx, request: &EntityRequest<'_>, claim: &Claim) -> Result<End> {
        let id = request.head.id;
        let inner = EntityRequest {
            head: request.head,
            cx: cx.clone(),
            body: request.body.clone(),
        };
        let response = dispatch::perform(&inner).await?;
        let (kept, response) =
            StoredResponse::of(dispatch::announce(response, cx.first_event()), id.as_str()).await?;
        if !settles(kept.status()) {
            return Ok(End {
                answer: Ok(response),
                left: Left::Free,
            });
        }
        if self
            .claims
            .finish(cx, claim, &kept, self.policy.ttl)
            .await?
        {
            return Ok(End {
                answer: Ok(response),
                left: Left::Nothing,
            });
        }
        // The call took so long that another call has taken over the claim. Its writes are rolled
        // back.
        Err(Error::new(
            Code::IdempotencyInProgress,
            "Another request with this idempotency key has taken over",
        )
        .retry_after(1))
    }

    /// Runs a function of the app, then stores its response.
    async fn apart(&self, request: &EntityRequest<'_>) -> Result<End> {
        let id = request.head.id;
        let response = dispatch::perform(request).await?;
        let (kept, response) = StoredResponse::of(
            dispatch::announce(response, request.cx.first_event()),
            id.as_str(),
        )
        .await?;
        let left = if settles(kept.status()) {
            Left::Keep(kept)
        } else {
            Left::Free
        };
        Ok(End {
            answer: Ok(response),
            left,
        })
    }

    /// The end of a call that was refused or failed.
    async fn refused(&self, error: Error, id: &RequestId) -> End {
        let left = match StoredResponse::of_error(&error, id.as_str()).await {
            Ok(kept) if settles(kept.status()) => Left::Keep(kept),
            _ => Left::Free,
        };
        End {
            answer: Err(error),
            left,
        }
    }

    async fn settle(&self, cx: &Cx, claim: &Claim, left: &Left) -> Result<()> {
        match left {
            Left::Nothing => Ok(()),
            Left::Keep(kept) => self
                .claims
                .finish(cx, claim, kept, self.policy.ttl)
                .await
                .map(drop),
            Left::Free => self.claims.free(cx, claim).await,
        }
    }
}

/// The key of a request, if it names one.
///
/// # Errors
/// When it is none.
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
    if bytes.len() > LONGEST {
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

/// A digest of parts of which none can pass for a piece of another.
struct Digested(Sha256);

impl Digested {
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
    fn keys_are_one_header_of_visible_ascii() {
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
    fn what_surrounds_a_call_has_one_form() {
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
    fn parts_of_a_digest_stay_apart() {
        let of = |parts: &[&str]| {
            let mut digest = Digested::new();
            for part in parts {
                digest.part(part.as_bytes());
            }
            digest.end()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
        assert_eq!(of(&["ab"]), of(&["ab"]));
    }
}
