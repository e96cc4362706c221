//! The data of a request, from the router to the response.
//!
//! [`Request`] contains the data that is known before the body is read. [`EntityRequest`] adds the
//! body and the context. The methods of `EntityRequest` read and check the inputs of a route, call
//! the [`Table`](crate::resource::Table) or executor, and write the response.

mod routes;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;

use super::answer::{self, Shape};
use super::include::{self, RequestedRelations};
use super::mounted::{Mounted, Target};
use super::operation::NewRecordLocation;
use super::overrides::{Inputs, OverrideCall};
use super::permitted::Permitted;
use super::rate::Limiter;
use super::related::RelatedRequest;
use super::request_id::RequestId;
use super::router::{App, Params};
use super::serve::NO_STORE;
use super::{input, path, precondition, query};
use crate::operation::Answer;
use crate::operation::permit::WrittenValues;
use crate::resource::{Draft, Form, Includes, Outcome};
use crate::validate::{Mode, read_draft};
use crate::{Actor, Cx, Error, Problem, Result, Value};

/// The data of a request that does not change while the route runs. The server creates it once,
/// after the router has found the route.
#[derive(Clone, Copy)]
pub(in crate::http) struct Request<'a> {
    /// The state that all routes share.
    pub(in crate::http) app: &'a Arc<App>,
    /// The route, with its data prepared at start-up.
    pub(in crate::http) mounted: &'a Mounted,
    /// The path parameters, not decoded.
    pub(in crate::http) params: Params<'a>,
    /// Method, path, query and headers.
    pub(in crate::http) parts: &'a Parts,
    /// The id of the request.
    pub(in crate::http) id: &'a RequestId,
    /// The remote address of the connection, which may be a proxy.
    pub(in crate::http) from: Option<IpAddr>,
    /// The caller of a call within the process; `None` for a request.
    pub(in crate::http) in_process: Option<InProcess<'a>>,
}

/// The caller of a call within the process.
#[derive(Clone, Copy)]
pub(in crate::http) struct InProcess<'a> {
    pub(in crate::http) actor: &'a Arc<Actor>,
    /// Whether the call counts for the rate limit.
    pub(in crate::http) counted: bool,
}

/// A request that its route has accepted: the caller is known, and the body has been read.
pub(in crate::http) struct EntityRequest<'a> {
    /// The data that was known before the body was read.
    pub(in crate::http) head: Request<'a>,
    /// The whole body.
    pub(in crate::http) body: Bytes,
    /// The call: its actor, its instant, its permissions.
    pub(in crate::http) cx: Cx,
}

impl<'a> Request<'a> {
    /// The rate limit of the route, if the call counts.
    pub(in crate::http) fn limiter(&self) -> Option<&'a Limiter> {
        let limiter = self.mounted.limiter.as_deref()?;
        let counted = self.in_process.is_none_or(|called| called.counted);
        counted.then_some(limiter)
    }
}

impl EntityRequest<'_> {
    /// Sets the status 201 and the `Location` of the new record.
    fn set_created(
        &self,
        response: &mut Response<Body>,
        location: Option<&NewRecordLocation>,
        id: Option<&Value>,
    ) {
        *response.status_mut() = StatusCode::CREATED;
        let (Some(location), Some(id)) = (location, id) else {
            return;
        };
        let mut at = String::with_capacity(location.path.len() + 40);
        let mut parameters = 0;
        for segment in location.path.split('/').skip(1) {
            at.push('/');
            if !segment.starts_with('{') {
                at.push_str(segment);
                continue;
            }
            match id {
                // The parents come from this request.
                _ if parameters < location.parents => {
                    at.push_str(self.head.params.get(parameters).unwrap_or_default());
                }
                Value::Text(id) => path::push_segment(&mut at, id),
                Value::Int(id) => at.push_str(itoa::Buffer::new().format(*id)),
                _ => return,
            }
            parameters += 1;
        }
        // Percent-encoded text is always a valid header value.
        if let Ok(value) = HeaderValue::try_from(at) {
            response.headers_mut().insert(LOCATION, value);
        }
    }

    /// The record's id; `None` if the path segment cannot be a key of the entity.
    fn id(&self, target: &Target) -> Option<Value> {
        // The record's id is the last parameter of a CRUD path.
        let text = self
            .head
            .params
            .get(self.head.params.len().checked_sub(1)?)?;
        target.table.parse_id(&path::decode(text)?)
    }

    /// The version of `If-Match`; problems with the header are added to the list.
    fn expected_version(&self, target: &Target, problems: &mut Vec<Problem>) -> Option<i64> {
        let version = precondition::if_match(&self.head.parts.headers).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        if version.is_some() && target.table.desc.version.is_none() {
            // The header is not ignored: the client sent it to prevent a lost update.
            problems.push(Problem::new(
                "header:If-Match",
                "not_allowed",
                "records of this entity have no version",
            ));
        }
        version
    }

    fn draft(&self, target: &Target, mode: Mode) -> Result<Draft> {
        let object = input::object(&self.head.parts.headers, &self.body)?;
        let mut draft = read_draft(target.table.desc, &object, mode, self.cx.now());
        if let Some(allowed) = &target.input {
            input::refuse_other_members(target.table.desc, &object, allowed, &mut draft);
        }
        Ok(draft)
    }

    /// The relations in the query of a route whose only query parameter is `include`.
    fn only_include(&self, target: &Target) -> Result<RequestedRelations> {
        let mut wanted = RequestedRelations::default();
        let Some(query) = self
            .head
            .parts
            .uri
            .query()
            .filter(|query| !query.is_empty())
        else {
            return Ok(wanted);
        };
        let pairs = query::pairs(Some(query));
        let known = |pair: &&query::Pair<'_>| {
            pair.key == include::NAME && !target.include.is_empty() && target.include.knows(pair)
        };
        let names = || (!target.include.is_empty()).then_some(include::NAME);
        query::refuse_unknown(
            pairs
                .iter()
                .filter(|pair| !known(pair))
                .map(|pair| &*pair.key),
            names,
        )?;
        let mut problems = Vec::new();
        for (n, pair) in pairs.iter().enumerate() {
            if n > 0 {
                query::duplicate(pair, &mut problems);
            } else {
                wanted = target.include.read(pair, &mut problems);
            }
        }
        if problems.is_empty() {
            Ok(wanted)
        } else {
            Err(Error::validation(problems))
        }
    }

    fn no_query(&self) -> Result<()> {
        match self.head.parts.uri.query() {
            None | Some("") => Ok(()),
            query => query::refuse_unknown(query::pairs(query).iter().map(|p| &*p.key), || None),
        }
    }

    fn no_body(&self) -> Result<()> {
        if self.body.is_empty() {
            Ok(())
        } else {
            input::nothing(&self.head.parts.headers, &self.body)
        }
    }

    /// The call, limited by the permission of the route for one record; `None` if the policy has no
    /// permission. `written` contains the values that an update writes to the fields of the
    /// permission.
    async fn limited(
        &self,
        target: &Target,
        id: &Value,
        written: WrittenValues,
    ) -> Result<Option<Permitted<'_>>> {
        let Some(permit) = self.head.mounted.permit() else {
            return Ok(None);
        };
        let (matches, runs_app_code) = (
            target.table.by_id(id.clone()),
            self.head.mounted.endpoint.run.is_some(),
        );
        let cx = Box::pin(permit.record(&target.table, &self.cx, &matches, written, runs_app_code))
            .await?;
        Ok(Some(Permitted {
            permit,
            cx,
            matches: Some(matches),
        }))
    }

    fn cx_of<'a>(&'a self, limited: Option<&'a Permitted<'_>>) -> &'a Cx {
        limited.map_or(&self.cx, |limited| &limited.cx)
    }

    /// The input of an override of this route.
    fn inputs(&self, target: &Target, cx: &Cx, form: &Form, inputs: Inputs) -> OverrideCall {
        let (table, adapters, form) = (
            Arc::clone(&target.table),
            self.head.app.adapters.clone(),
            form.clone(),
        );
        OverrideCall {
            cx: cx.clone(),
            table,
            adapters,
            inputs,
            form,
            route: self.head.mounted.endpoint.action.name(),
        }
    }

    /// The relations to include, if the caller may read their records.
    async fn allowed_includes(
        &self,
        target: &Target,
        wanted: &RequestedRelations,
    ) -> Result<Option<Box<Includes>>> {
        if wanted.is_empty() {
            return Ok(None);
        }
        let related_request = RelatedRequest {
            cx: &self.cx,
            parts: self.head.parts,
            adapters: &self.head.app.adapters,
        };
        let includes = target.include.allowed(wanted, related_request).await?;
        includes.admit()?;
        Ok(Some(Box::new(includes)))
    }

    async fn answer_with(
        &self,
        target: &Target,
        includes: &Includes,
        outcome: Outcome,
        shape: Answer,
    ) -> Result<Response<Body>> {
        let outcome = includes
            .complete(&target.table, &target.projection, outcome)
            .await?;
        // The version belongs to the record alone. Included records change without it, so the
        // request's headers are not used.
        let no_headers = HeaderMap::new();
        let mut response = answer::answer(
            target,
            outcome,
            &Shape {
                answer: shape,
                method: &self.head.parts.method,
                headers: &no_headers,
            },
        )?;
        if target.include.is_closed() {
            response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        }
        Ok(response)
    }

    fn answer(&self, target: &Target, outcome: Outcome, shape: Answer) -> Result<Response<Body>> {
        answer::answer(
            target,
            outcome,
            &Shape {
                answer: shape,
                method: &self.head.parts.method,
                headers: &self.head.parts.headers,
            },
        )
    }
}

/// The form in which a route reads its records.
fn form<'a>(target: &'a Target, includes: Option<&Includes>) -> Cow<'a, Form> {
    match (includes, &target.form) {
        (Some(includes), Form::Json(projection)) => {
            Cow::Owned(includes.form(&target.table, projection))
        }
        (_, form) => Cow::Borrowed(form),
    }
}
