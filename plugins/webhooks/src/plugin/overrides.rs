//! Overrides of the create, update and delete routes of endpoints.

use std::time::Duration;

use linchpin::entity::FieldType;
use linchpin::http::{Inputs, OverrideCall};
use linchpin::resource::Draft;
use linchpin::resource::Outcome;
use linchpin::{Cx, Error, Problem, Result, Route, RouteOverride, Timestamp};

use super::checks;
use super::{Parts, PartsCell};
use crate::delivery::later;
use crate::entity::{DisabledReason, EndpointStatus, OwnerType, WebhookEndpoint, webhook_endpoint};
use crate::secrets::Secrets;
use crate::signature::SigningSecret;

/// When an endpoint becomes active again, held deliveries that are older than this stay held.
const MAX_RELEASED_AGE: Duration = Duration::from_hours(24);

pub(super) fn all(cell: &PartsCell) -> Vec<RouteOverride> {
    let [a, b, c] = [cell.clone(), cell.clone(), cell.clone()];
    vec![
        RouteOverride::route::<WebhookEndpoint, _, _>(Route::Create, move |call| {
            create(a.clone(), call)
        }),
        RouteOverride::route::<WebhookEndpoint, _, _>(Route::Update, move |call| {
            update(b.clone(), call)
        }),
        RouteOverride::route::<WebhookEndpoint, _, _>(Route::Delete, move |call| {
            delete(c.clone(), call)
        }),
    ]
}

fn take(call: &mut OverrideCall) -> Inputs {
    std::mem::replace(&mut call.inputs, Inputs::Get(linchpin::Value::Null))
}

/// The problems of a new or changed endpoint.
async fn problems(parts: &Parts, draft: &Draft) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    if let Some(url) = draft.get(webhook_endpoint::url)? {
        problems.extend(checks::url(parts.workers.sender.client(), &url).await);
    }
    if let Some(events) = draft.get(webhook_endpoint::events)? {
        problems.extend(checks::events(&parts.catalogue, &events));
    }
    if let Some(Some(headers)) = draft.get(webhook_endpoint::headers)? {
        problems.extend(checks::headers(&headers));
    }
    Ok(problems)
}

/// The status in the input: `status`, or its short forms `isActive` and `enabled`.
fn requested_status(draft: &Draft) -> Result<std::result::Result<Option<EndpointStatus>, Problem>> {
    let status = draft.get(webhook_endpoint::status)?;
    let short_forms = [
        draft.get(webhook_endpoint::is_active)?.flatten(),
        draft.get(webhook_endpoint::enabled)?.flatten(),
    ];
    if status == Some(EndpointStatus::Disabled) {
        let text = "can be set only by the system: use `paused`";
        return Ok(Err(Problem::new("status", "not_allowed", text)));
    }
    // A short form has precedence over the default of `status`.
    let mut requested_status = status.filter(|_| draft.is_given(webhook_endpoint::status));
    for active in short_forms.into_iter().flatten() {
        let status = if active {
            EndpointStatus::Active
        } else {
            EndpointStatus::Paused
        };
        if requested_status.is_some_and(|known| known != status) {
            let text = "contradicts `status`";
            return Ok(Err(Problem::new("isActive", "check", text)));
        }
        requested_status = Some(status);
    }
    Ok(Ok(requested_status.or(status)))
}

fn set_status(draft: &mut Draft, status: EndpointStatus) {
    let active = status == EndpointStatus::Active;
    draft.set(webhook_endpoint::status, status);
    draft.set(webhook_endpoint::is_active, Some(active));
    draft.set(webhook_endpoint::enabled, Some(active));
}

/// Creates an endpoint. The response contains its secret.
async fn create(cell: PartsCell, mut call: OverrideCall) -> Result<Outcome> {
    let parts = cell.parts()?;
    let Inputs::Create(mut draft) = take(&mut call) else {
        return Err(Error::internal("a create has no record"));
    };
    let mut problems = problems(parts, &draft).await?;
    let secret = match draft.get(webhook_endpoint::secret)?.flatten() {
        Some(text) => SigningSecret::parse(&text).map_err(|error| {
            problems.push(Problem::new("secret", "format", error.to_string()));
        }),
        None => Ok(SigningSecret::generate()?),
    };
    let status = requested_status(&draft)?.map_err(|problem| problems.push(problem));
    checks::refuse(problems)?;
    let (Ok(secret), Ok(status)) = (secret, status) else {
        return Err(Error::internal("a problem was not reported"));
    };
    set_status(&mut draft, status.unwrap_or(EndpointStatus::Active));
    let tenant = call
        .cx
        .get_actor()
        .and_then(|actor| actor.tenant_id.clone());
    let owner = if tenant.is_some() {
        OwnerType::Tenant
    } else {
        OwnerType::App
    };
    draft.set(webhook_endpoint::owner_type, owner);
    draft.set(webhook_endpoint::owner_id, tenant);
    let id = draft.get(webhook_endpoint::id)?.unwrap_or_default();
    draft.set(webhook_endpoint::updated_at, Some(call.cx.now()));
    // The plain text of the secret is never stored.
    draft.set(webhook_endpoint::secret, None);
    draft.set(webhook_endpoint::secret_hint, secret.hint().to_owned());
    let text = secret.text().to_owned();
    let sealed = Secrets::new(secret, call.cx.now()).seal(&parts.workers.keys, &id)?;
    draft.set(webhook_endpoint::sealed, sealed);
    call.cx.answer_once("secret", text)?;
    Ok(Outcome::Record(
        call.table.create(&call.cx, draft, &call.form).await?.0,
    ))
}

/// Changes an endpoint; holds or releases its deliveries if its status changes.
async fn update(cell: PartsCell, mut call: OverrideCall) -> Result<Outcome> {
    let parts = cell.parts()?;
    let Inputs::Update(key, mut draft, version) = take(&mut call) else {
        return Err(Error::internal("an update has no changes"));
    };
    let mut problems = problems(parts, &draft).await?;
    let status = requested_status(&draft)?.map_err(|problem| problems.push(problem));
    if draft.get(webhook_endpoint::secret)?.is_some() {
        let text = "cannot be changed here: use `rotate-secret`";
        problems.push(Problem::new("secret", "not_allowed", text));
    }
    checks::refuse(problems)?;
    let id = String::from_value(key.as_ref()).map_err(Error::internal)?;
    draft.set(webhook_endpoint::updated_at, Some(call.cx.now()));
    let status = status.ok().flatten();
    if let Some(status) = status {
        set_status(&mut draft, status);
    }
    if status == Some(EndpointStatus::Active) {
        draft.set(webhook_endpoint::disabled_reason, None::<DisabledReason>);
        draft.set(webhook_endpoint::disabled_at, None);
        draft.set(webhook_endpoint::failing_since, None);
        draft.set(webhook_endpoint::consecutive_failures, 0);
        draft.set(webhook_endpoint::blocked_in_a_row, 0);
    }
    let OverrideCall {
        cx, table, form, ..
    } = &call;
    let rows = cx
        .transaction(async |cx| {
            let rows = table.update(cx, key, draft, version, form).await?;
            if let Some(status) = status {
                hold_or_release(parts, cx, &id, status).await?;
            }
            Ok(rows)
        })
        .await?;
    Ok(Outcome::Record(rows))
}

/// Holds or releases the deliveries of an endpoint after a change of its status.
async fn hold_or_release(parts: &Parts, cx: &Cx, id: &str, status: EndpointStatus) -> Result<()> {
    let records = &parts.workers.records;
    if status != EndpointStatus::Active {
        return records.deliveries.hold(cx, id).await.map(drop);
    }
    let since = earlier(cx.now(), MAX_RELEASED_AGE);
    records.deliveries.release(cx, id, since).await?;
    records
        .endpoints
        .wake(cx, vec![id.to_owned()], cx.now())
        .await?;
    let workers = std::sync::Arc::clone(&parts.workers);
    cx.after_commit(move || workers.wake.notify_one());
    Ok(())
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    let later = later(Timestamp::from_millis(0), by);
    Timestamp::from_millis(at.millis().saturating_sub(later.millis()))
}

/// Deletes an endpoint, and cancels its deliveries.
async fn delete(cell: PartsCell, mut call: OverrideCall) -> Result<Outcome> {
    let parts = cell.parts()?;
    let Inputs::Delete(key, version) = take(&mut call) else {
        return Err(Error::internal("a delete names no record"));
    };
    let id = String::from_value(key.as_ref()).map_err(Error::internal)?;
    let table = &call.table;
    call.cx
        .transaction(async |cx| {
            table.delete(cx, key, version).await?;
            parts
                .workers
                .records
                .deliveries
                .cancel(cx, id.as_str())
                .await
                .map(drop)
        })
        .await?;
    Ok(Outcome::Nothing)
}
