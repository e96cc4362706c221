//! What every route of an entity shares: policy, inputs, the call, the answer. Not generic: a route is data.

use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};

use super::AuthDesc;
use super::auth::{AuthCheck, Resolution};
use super::endpoint::{Action, Endpoint};
use super::request_id::RequestId;
use super::response;
use super::router::{App, HttpState};
use crate::resource::{Form, Table};
use crate::{Actor, Cx, Error, Result};

/// An endpoint with all that can be known before its first request.
pub(super) struct Mounted {
    pub(super) endpoint: Endpoint,
    check: Option<AuthCheck>,
    form: Form,
}

impl Mounted {
    pub(super) fn new(endpoint: &Endpoint, _names: &[String], _all: &[Endpoint], state: &HttpState) -> Result<Self> {
        let check = match endpoint.policy.auth {
            AuthDesc::None => None,
            AuthDesc::Named(name) => Some(Arc::clone(state.auth.check(name).ok_or_else(|| {
                let (route, at) = (&endpoint.path, endpoint.at);
                Error::internal(format!(
                    "route {} {route} ({}:{}) asks for auth `{name}`, which nobody registered",
                    endpoint.method.as_str(),
                    at.file,
                    at.line
                ))
            })?)),
        };
        let form = endpoint.table.as_ref().map_or(Form::Records, |t| Form::Json(Arc::clone(&t.projection)));
        Ok(Self { endpoint: endpoint.clone(), check, form })
    }
}

/// The actor behind a request.
pub(super) async fn actor(app: &App, parts: &Parts) -> Result<Arc<Actor>> {
    match &app.resolver {
        None => Ok(Arc::clone(&app.anonymous)),
        Some(resolver) => match resolver.resolve(parts) {
            Resolution::Ready(actor) => actor,
            Resolution::Later(actor) => actor.await,
        },
    }
}

/// Answers one request to an endpoint, in the contract's order of checks.
pub(super) async fn run(
    app: &App,
    mounted: &Mounted,
    params: &matchit::Params<'_, '_>,
    parts: &Parts,
    _body: Body,
    id: &RequestId,
) -> Result<Response<Body>> {
    let policy = &mounted.endpoint.policy;
    let actor = actor(app, parts).await?;
    if let Some(check) = &mounted.check {
        check(&actor)?;
    }
    if !policy.roles.is_empty() {
        (app.auth.require_role)(&actor, policy.roles)?;
    }
    let cx = Cx::new(actor, (app.clock)(), id.shared());
    let table = mounted.endpoint.table.as_ref().ok_or_else(|| Error::internal("an endpoint without a table"))?;
    match mounted.endpoint.action {
        Action::Get => get(table, mounted, params, &cx).await,
        _ => Err(Error::internal("only `get` is dispatched so far")),
    }
}

async fn get(table: &Table, mounted: &Mounted, params: &matchit::Params<'_, '_>, cx: &Cx) -> Result<Response<Body>> {
    let id = params.iter().next().and_then(|(_, text)| super::path::decode(text)).and_then(|text| table.parse_id(&text));
    let Some(id) = id else { return Err(Error::not_found()) };
    let rows = table.get(cx, id, &mounted.form).await?;
    if rows.count == 0 {
        return Err(Error::not_found());
    }
    Ok(response::json(StatusCode::OK, rows.json))
}
