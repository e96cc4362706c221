//! An endpoint with all that can be known before its first request.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;

use super::AuthDesc;
use super::auth::AuthCheck;
use super::endpoint::{Action, Endpoint};
use super::list::ListParams;
use super::operation::OperationPlan;
use super::path;
use super::router::HttpState;
use crate::resource::{Form, Table};
use crate::store::Projection;
use crate::{Error, Result};

/// An endpoint, ready to answer.
pub(super) struct Mounted {
    pub(super) endpoint: Endpoint,
    /// `None`: anybody.
    pub(super) check: Option<AuthCheck>,
    pub(super) plan: Plan,
}

/// What an action needs per request and can have before.
pub(super) enum Plan {
    Create {
        on: Target,
        /// `/posts/`, before the id in `Location`.
        location: String,
        /// Ids that would name another route.
        reserved: Box<[String]>,
    },
    List(Target, ListParams),
    Get(Target),
    Update(Target),
    Delete(Target),
    Operation(Target, OperationPlan),
    /// The user's function, in a router that knows its path alone, so that extractors see the user's own parameter names.
    Extra(axum::Router),
}

/// The entity a route works on, and the form its records take.
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    pub(super) form: Form,
    pub(super) projection: Arc<Projection>,
}

impl Mounted {
    pub(super) fn new(endpoint: &Endpoint, names: &[String], all: &[Endpoint], state: &HttpState) -> Result<Self> {
        let check = match endpoint.policy.auth {
            AuthDesc::None => None,
            AuthDesc::Named(name) => match state.auth.check(name) {
                Some(check) => Some(Arc::clone(check)),
                None => return Err(refuse(endpoint, &format!("asks for auth `{name}`, which nobody registered"))),
            },
        };
        Ok(Self { check, plan: Plan::new(endpoint, names, all)?, endpoint: endpoint.clone() })
    }
}

impl Plan {
    fn new(endpoint: &Endpoint, names: &[String], all: &[Endpoint]) -> Result<Self> {
        let target = || match &endpoint.table {
            Some(table) => {
                let projection = Arc::clone(&table.projection);
                Ok(Target { table: Arc::clone(table), form: Form::Json(Arc::clone(&projection)), projection })
            }
            None => Err(refuse(endpoint, "has no table")),
        };
        Ok(match endpoint.action {
            Action::Create => {
                let location = format!("{}/", endpoint.path.trim_end_matches('/'));
                let reserved = reserved(&location, all);
                Self::Create { on: target()?, location, reserved }
            }
            Action::List => {
                let target = target()?;
                let params = ListParams::new(target.table.desc);
                Self::List(target, params)
            }
            Action::Get => Self::Get(target()?),
            Action::Update => Self::Update(target()?),
            Action::Delete => Self::Delete(target()?),
            Action::Operation(spec, _) => {
                let target = target()?;
                let plan = OperationPlan::new(spec, endpoint.method, names, &target.table)?;
                Self::Operation(target, plan)
            }
            Action::Extra(spec) => {
                let route = axum::routing::any(spec.handler);
                Self::Extra(axum::Router::new().route(&endpoint.path, route).layer(DefaultBodyLimit::disable()))
            }
        })
    }
}

/// The static segments mounted directly below a path.
fn reserved(below: &str, all: &[Endpoint]) -> Box<[String]> {
    let next = all.iter().filter_map(|e| e.path.strip_prefix(below)?.split('/').next());
    let mut found: Vec<String> =
        next.filter(|s| !s.is_empty() && !s.starts_with('{')).filter_map(|s| Some(path::decode(s)?.into_owned())).collect();
    found.sort();
    found.dedup();
    found.into()
}

fn refuse(endpoint: &Endpoint, what: &str) -> Error {
    let (method, at) = (endpoint.method.as_str(), endpoint.at);
    Error::internal(format!("route {method} {} ({}, {}:{}) {what}", endpoint.path, endpoint.name, at.file, at.line))
}
