//! Routes in addition to those of the entities: rotation of secrets and the event types.

use std::future::ready;
use std::time::Duration;

use http::HeaderValue;
use http::header::CACHE_CONTROL;
use linchpin::http::{
    AnswerDesc, GuardDesc, Nothing, PluginCall, PluginRoute, PolicyDesc, Reply, Route,
};
use linchpin::{Code, Embedded, Error, Problem, Result, Timestamp};
use serde_json::json;

use super::audit::{self, Target};
use super::{MANAGE, PLUGIN, PartsCell, Workers};
use crate::entity::{WebhookEndpoint, WebhookEndpointPatch};
use crate::event_types::EventType;
use crate::secrets::Secrets;
use crate::signature::SigningSecret;

/// The path prefix of the routes.
pub(crate) const MOUNT: &str = "/webhooks";
/// By default, deliveries are also signed with the previous secret for this number of seconds after
/// a rotation.
const DEFAULT_OVERLAP: i64 = 86_400;
const ROTATION: &str = "rotate_secret";

pub(super) const MANAGERS: &[GuardDesc] = &[GuardDesc {
    name: MANAGE,
    argument: None,
}];

pub(super) const REFUSALS: &[Code] = &[Code::Unauthorized, Code::Forbidden, Code::NotFound];

static ROTATE: Route<Rotation> = Route::post(ROTATION, "endpoints/{id}/rotate-secret")
    .of(PLUGIN)
    .doc(
        "Replaces the secret of an endpoint. Only this response contains the new secret.\n\n\
         Deliveries are also signed with the previous secret for `overlapSeconds`, so that \
         receivers have time to switch to the new secret.",
    )
    .policy(PolicyDesc::INHERIT.audit(ROTATION))
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<Rotated>(200, "The new secret.")])
    .errors(REFUSALS);

static EVENT_TYPES: Route<Nothing> = Route::get("event_types", "event-types")
    .of(PLUGIN)
    .doc("Lists the events that endpoints can subscribe to, with their schemas.")
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<EventTypes>(200, "The events.")])
    .errors(&[Code::Unauthorized, Code::Forbidden]);

static EVENT_TYPE: Route<Nothing> = Route::get("event_type", "event-types/{name}")
    .of(PLUGIN)
    .doc("Returns an event that endpoints can subscribe to, with the JSON Schema of its bodies.")
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<EventType>(200, "The event.")])
    .errors(REFUSALS);

/// The request body of a rotation.
#[derive(Embedded)]
struct Rotation {
    /// The secret, as `whsec_` and 24 to 64 bytes in base64; a random one by default.
    secret: Option<String>,
    /// How long deliveries are also signed with the previous secret, in seconds; 86400 by default.
    #[field(range = 0..=604_800)]
    overlap_seconds: Option<i64>,
}

/// The response body of a rotation.
#[derive(Embedded)]
struct Rotated {
    secret: String,
    secret_hint: String,
    previous_expires_at: Option<Timestamp>,
}

/// The response body of `GET event-types`.
#[derive(Embedded)]
struct EventTypes {
    items: Vec<EventType>,
}

pub(super) fn all(cell: &PartsCell) -> Vec<PluginRoute> {
    let [a, b, c] = [cell.clone(), cell.clone(), cell.clone()];
    let mut routes = vec![
        ROTATE.bind(MOUNT, move |call, input| rotate(a.clone(), call, input)),
        super::test::route(cell),
        super::recover::route(cell),
        EVENT_TYPES.bind(MOUNT, move |_, _| ready(event_types(&b))),
        EVENT_TYPE.bind(MOUNT, move |call, _| ready(event_type(&c, call.param(0)))),
    ];
    routes.extend(super::replay::all(cell));
    routes.extend(super::reads::all(cell));
    routes
}

/// The endpoint in the path; `not_found` if the caller may not see it.
pub(super) async fn endpoint(workers: &Workers, call: &PluginCall) -> Result<WebhookEndpoint> {
    let found = workers
        .records
        .endpoints
        .get(&call.cx, call.param(0))
        .await?;
    found.ok_or_else(Error::not_found)
}

async fn rotate(cell: PartsCell, call: PluginCall, input: Rotation) -> Result<Reply> {
    let workers = &cell.parts()?.workers;
    let secret = match &input.secret {
        Some(text) => SigningSecret::parse(text).map_err(|error| {
            Error::validation(vec![Problem::new("secret", "format", error.to_string())])
        })?,
        None => SigningSecret::generate()?,
    };
    let seconds = input
        .overlap_seconds
        .unwrap_or(DEFAULT_OVERLAP)
        .unsigned_abs();
    let (text, hint) = (secret.text().to_owned(), secret.hint().to_owned());
    endpoint(workers, &call).await?;
    let previous = audit::caller(&call)?
        .transaction(async |cx| {
            let (endpoints, id) = (&workers.records.endpoints, call.param(0));
            // This locks the row, so a concurrent rotation waits.
            let hint = WebhookEndpointPatch {
                secret_hint: Some(hint.clone()),
                updated_at: Some(Some(cx.now())),
                ..WebhookEndpointPatch::default()
            };
            let endpoint = endpoints.update(cx, id, hint, None).await?;
            let mut secrets = Secrets::open(&workers.keys, id, &endpoint.sealed)?;
            let previous = secrets.rotate(secret, Duration::from_secs(seconds), cx.now());
            let sealed = WebhookEndpointPatch {
                sealed: Some(secrets.seal(&workers.keys, id)?),
                ..WebhookEndpointPatch::default()
            };
            endpoints.update(cx, id, sealed, None).await?;
            let target = Target {
                entity: "WebhookEndpoint",
                id,
                tenant: endpoint.tenant_id.as_deref(),
            };
            // The secret and its last characters are not logged.
            let after = Some(json!({ "previousExpiresAt": previous.map(|at| at.to_string()) }));
            audit::add(&call, cx, ROTATION, target, (None, after)).await?;
            Ok(previous)
        })
        .await?;
    let rotated = Rotated {
        secret: text,
        secret_hint: hint,
        previous_expires_at: previous,
    };
    Ok(Reply::json(200, &rotated)?.header(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

fn event_types(cell: &PartsCell) -> Result<Reply> {
    let items = cell.parts()?.catalogue.event_types();
    Reply::json(200, &EventTypes { items })
}

fn event_type(cell: &PartsCell, name: &str) -> Result<Reply> {
    let all = cell.parts()?.catalogue.event_types();
    let found = all.into_iter().find(|one| one.name == name);
    Reply::json(200, &found.ok_or_else(Error::not_found)?)
}
