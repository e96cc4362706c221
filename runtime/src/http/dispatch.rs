//! What every route of an entity shares: policy, inputs, the call, the answer.
//!
//! The order of checks is the contract's: actor, rate limit, auth, roles, guards, middleware, body, unknown parameters, content type, syntax, validation,
//! precondition, statement. A request that fails one of them has changed nothing.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::Limited;
use tower_service::Service;

use super::answer::{self, Shape};
use super::auth::{Origin, Resolution};
use super::endpoint::{Inputs, OverrideCall};
use super::include::{self, Asking, Wanted};
use super::list::ListParams;
use super::mounted::{EntityPlan, Mounted, Plan, Target};
use super::operation::{Births, OperationPlan};
use super::permitted::{self, Permitted};
use super::plugged::PluggedPlan;
use super::request_id::RequestId;
use super::router::{App, Params};
use super::serve::NO_STORE;
use super::{body, input, path, precondition, query};
use crate::operation::Answer;
use crate::permission::Moved;
use crate::resource::{Call, Draft, Form, Includes, Outcome};
use crate::validate::{Mode, parse_scalar, read_draft};
use crate::{Actor, Code, Cx, Error, Problem, Result, Uuid, Value};

/// The actor behind a request.
pub(super) async fn actor(app: &App, parts: &Parts, request_id: &RequestId, from: Option<IpAddr>) -> Result<Arc<Actor>> {
    match &app.resolver {
        None => Ok(Arc::clone(&app.anonymous)),
        Some(resolver) => match resolver.resolve(parts, Origin { request_id, from }) {
            Resolution::Ready(actor) => actor,
            Resolution::Later(actor) => actor.await,
        },
    }
}

/// Answers one request to an endpoint.
pub(super) async fn run(
    app: &Arc<App>,
    mounted: &Mounted,
    params: Params<'_>,
    parts: &Parts,
    body: &mut Body,
    id: &RequestId,
    from: Option<IpAddr>,
) -> Result<Response<Body>> {
    let policy = &mounted.endpoint.policy;
    let actor = actor(app, parts, id, from).await?;
    if let Some(limiter) = &mounted.limiter {
        limiter.admit(&actor, from, (app.clock)()).await?;
    }
    let mut cx = Cx::new(Arc::clone(&actor), (app.clock)(), id.shared()).called_from(from);
    if let Some(before) = &mounted.before {
        before.admit(&cx, Some(parts.uri.path()))?;
    }
    if let Some(check) = &mounted.check {
        check(&actor)?;
    }
    if !policy.roles.is_empty() {
        (app.auth.require_role)(&actor, policy.roles)?;
    }
    let emitted = mounted.emits.then(|| cx.watch());
    // Where strangers may call, others still see what is for them alone.
    let personal = mounted.endpoint.is_public() && (actor.id.is_some() || mounted.gates.as_ref().is_some_and(|gates| gates.varies));
    let response = match &mounted.gates {
        None => call(app, mounted, params, parts, body, cx, id).await,
        Some(gates) => {
            gates.guard(&cx)?;
            let cx = Box::pin(gates.known(parts, cx)).await?;
            let rest = call(app, mounted, params, parts, body, cx.clone(), id);
            let rest = Box::pin(async {
                let response = rest.await?;
                match cx.once() {
                    None => Ok(response),
                    Some(once) => once.reveal(response).await,
                }
            });
            gates.around(app, &mounted.endpoint, parts, &cx, rest).await
        }
    }?;
    let mut response = announce(response, emitted.and_then(|place| place.get().cloned()));
    if personal {
        response.headers_mut().entry(CACHE_CONTROL).or_insert(NO_STORE);
    }
    Ok(response)
}

/// Answers a request that roles, guards and middleware have let through.
async fn call(
    app: &Arc<App>,
    mounted: &Mounted,
    params: Params<'_>,
    parts: &Parts,
    body: &mut Body,
    mut cx: Cx,
    id: &RequestId,
) -> Result<Response<Body>> {
    if let Plan::Entity(on, _) = &mounted.plan
        && on.guarded
    {
        cx = within(on, params, cx)?;
        // Before the body is looked at: who may not call at all learns nothing about it.
        on.table.admit(&cx, &mounted.endpoint.name)?;
    }
    if let Some(permit) = mounted.permit() {
        cx = Box::pin(permit.enter(cx)).await?;
    }
    if let Some(auditing) = &mounted.audit {
        cx = cx.audited(auditing);
    }
    if let Plan::Plugged(plan) = &mounted.plan {
        return Box::pin(plugged(app, mounted, plan, params, parts, body, (cx, id))).await;
    }
    if let (Plan::Extra(router), None) = (&mounted.plan, &mounted.idempotency) {
        // It reads the body itself, as it comes.
        return Box::pin(extra(app, mounted, router, parts, std::mem::take(body), cx, id)).await;
    }
    // What most requests do not need is boxed, so that the future of a read by key stays small.
    let read = |body| Box::pin(body::read(body, mounted.max_body, mounted.endpoint.policy.timeout, &app.room));
    let body = if body.is_end_stream() { Bytes::new() } else { read(std::mem::take(body)).await? };
    let asked = Asked { app, mounted, params, parts, body, cx };
    match &mounted.idempotency {
        None => perform(&asked, id).await,
        Some(gate) => Box::pin(gate.run(asked, id)).await,
    }
}

/// What a route does, once it is known who calls and what they sent.
pub(super) async fn perform(asked: &Asked<'_>, id: &RequestId) -> Result<Response<Body>> {
    let (on, plan) = match &asked.mounted.plan {
        Plan::Entity(on, plan) => (on, plan),
        Plan::Extra(router) => {
            let body = Body::from(asked.body.clone());
            return Box::pin(extra(asked.app, asked.mounted, router, asked.parts, body, asked.cx.clone(), id)).await;
        }
        // Answered before there is anything to repeat.
        Plan::Plugged(_) => return Err(Error::internal("a plugin's route was asked as one of an entity")),
    };
    match plan {
        EntityPlan::Get => asked.get(on).await,
        EntityPlan::List(list) => Box::pin(asked.list(on, list)).await,
        EntityPlan::Create(births) => Box::pin(asked.create(on, births)).await,
        EntityPlan::Update => Box::pin(asked.update(on)).await,
        EntityPlan::Delete => Box::pin(asked.delete(on)).await,
        EntityPlan::Operation(plan) => Box::pin(asked.operation(on, plan)).await,
    }
}

/// Names the first event of a call in its answer.
pub(super) fn announce(mut response: Response<Body>, event: Option<Uuid>) -> Response<Body> {
    // A uuid is a header value always.
    if let Some(id) = event
        && let Ok(id) = HeaderValue::from_str(id.as_str())
    {
        response.headers_mut().insert("x-event-id", id);
    }
    response
}

/// One request on its way to an endpoint: known, allowed, its body read.
pub(super) struct Asked<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) mounted: &'a Mounted,
    pub(super) params: Params<'a>,
    pub(super) parts: &'a Parts,
    pub(super) body: Bytes,
    pub(super) cx: Cx,
}

impl Asked<'_> {
    async fn get(&self, on: &Target) -> Result<Response<Body>> {
        let wanted = self.only_include(on)?;
        self.no_body()?;
        let id = self.id(on).ok_or_else(Error::not_found)?;
        // What is included is boxed: a read by key alone stays small.
        let with = if wanted.is_empty() { None } else { Box::pin(self.with(on, &wanted)).await? };
        let form = form(on, with.as_deref());
        let limited = self.limited(on, &id, Moved::default()).await?;
        let cx = self.cx_of(limited.as_ref());
        let outcome = match &self.mounted.endpoint.run {
            Some(run) => run(self.inputs(on, cx, &form, Inputs::Get(id))).await,
            None => on.table.get(cx, id, &form).await.map(Outcome::Record),
        };
        let outcome = match limited {
            None => outcome?,
            Some(limited) => limited.settle(on, permitted::found(outcome)).await?,
        };
        match with {
            None => self.answer(on, outcome, Answer::Record),
            Some(with) => Box::pin(self.answer_with(on, &with, outcome, Answer::Record)).await,
        }
    }

    async fn list(&self, on: &Target, list: &ListParams) -> Result<Response<Body>> {
        let (request, wanted) = list.read(self.parts.uri.query(), &on.include)?;
        self.no_body()?;
        let with = self.with(on, &wanted).await?;
        let form = form(on, with.as_deref());
        let limited = match self.mounted.permit() {
            Some(permit) => Some(permit.list(&self.cx).await?),
            None => None,
        };
        let cx = limited.as_ref().unwrap_or(&self.cx);
        let outcome = match &self.mounted.endpoint.run {
            Some(run) => run(self.inputs(on, cx, &form, Inputs::List(request))).await?,
            None => on.table.list(cx, request, &form).await?,
        };
        match with {
            None => self.answer(on, outcome, Answer::Page),
            Some(with) => self.answer_with(on, &with, outcome, Answer::Page).await,
        }
    }

    async fn create(&self, on: &Target, births: &Births) -> Result<Response<Body>> {
        self.no_query()?;
        let mut draft = self.draft(on, Mode::Create)?;
        let id = draft.values.get(on.table.desc.primary).and_then(Option::as_ref);
        births.check(&on.table, id, &mut draft.problems);
        let mut limited = None;
        if let Some(permit) = self.mounted.permit() {
            draft = on.table.checked_create(&self.cx, draft)?;
            let values: Vec<Value> = draft.values.iter().map(|value| value.clone().unwrap_or_default()).collect();
            limited = Some(permit.new_record(&self.cx, &values).await?);
        }
        let cx = limited.as_ref().unwrap_or(&self.cx);
        let (outcome, id) = if let Some(run) = &self.mounted.endpoint.run {
            let draft = on.table.checked_create(cx, draft)?;
            let outcome = run(self.inputs(on, cx, &on.form, Inputs::Create(draft))).await?;
            let id = answer::id_of(&on.table, &outcome);
            (outcome, id)
        } else {
            let (rows, id) = on.table.create(cx, draft, &on.form).await?;
            (Outcome::Record(rows), Some(id))
        };
        let mut response = self.answer(on, outcome, Answer::Record)?;
        self.created(&mut response, Some(births), id.as_ref());
        Ok(response)
    }

    async fn update(&self, on: &Target) -> Result<Response<Body>> {
        self.no_query()?;
        let mut draft = self.draft(on, Mode::Update)?;
        let version = self.expected(on, &mut draft.problems);
        let missing = version.is_none() && on.table.desc.version.is_some_and(|v| v.required_on_write);
        let id = match self.id(on) {
            Some(id) if !missing => id,
            _ => return Err(refuse_update(on, draft, missing)),
        };
        let mut limited = None;
        if let Some(permit) = self.mounted.permit() {
            draft = on.table.checked_update(draft)?;
            let moved = permit.moved(|field| draft.values[field].clone());
            limited = self.limited(on, &id, moved).await?;
        }
        let cx = self.cx_of(limited.as_ref());
        let outcome = match &self.mounted.endpoint.run {
            Some(run) => run(self.inputs(on, cx, &on.form, Inputs::Update(id, on.table.checked_update(draft)?, version))).await,
            None => on.table.update(cx, id, draft, version, &on.form).await.map(Outcome::Record),
        };
        let outcome = match limited {
            None => outcome?,
            Some(limited) => limited.settle(on, outcome).await?,
        };
        self.answer(on, outcome, Answer::Record)
    }

    async fn delete(&self, on: &Target) -> Result<Response<Body>> {
        self.no_query()?;
        self.no_body()?;
        let mut problems = Vec::new();
        let version = self.expected(on, &mut problems);
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        if version.is_none() && on.table.desc.version.is_some_and(|v| v.required_on_write) {
            return Err(precondition_required());
        }
        let id = self.id(on).ok_or_else(Error::not_found)?;
        let limited = self.limited(on, &id, Moved::default()).await?;
        let cx = self.cx_of(limited.as_ref());
        let done = match &self.mounted.endpoint.run {
            Some(run) => run(self.inputs(on, cx, &on.form, Inputs::Delete(id, version))).await.map(drop),
            None => on.table.delete(cx, id, version).await,
        };
        match limited {
            None => done?,
            Some(limited) => limited.settle(on, done).await?,
        }
        Ok(super::response::empty(StatusCode::NO_CONTENT))
    }

    async fn operation(&self, on: &Target, plan: &OperationPlan) -> Result<Response<Body>> {
        let mut problems = Vec::new();
        let version = if plan.guarded { self.expected(on, &mut problems) } else { None };
        let read = plan.read(on, &self.cx, self.params, self.parts, &self.body, problems)?;
        if let Some(births) = &plan.births {
            let mut problems = Vec::new();
            births.check(&on.table, plan.argument(&read, on.table.desc.primary), &mut problems);
            if !problems.is_empty() {
                return Err(Error::validation(problems));
            }
        }
        let with = self.with(on, &read.wanted).await?;
        let form = form(on, with.as_deref());
        let mut limited = None;
        if let Some(permit) = self.mounted.permit() {
            plan.check_required(&read.args)?;
            let looks = self.mounted.endpoint.run.is_some();
            let (cx, matches) = Box::pin(permit.operation(&on.table, &self.cx, plan.spec, &read.args, looks)).await?;
            limited = Some(Permitted { permit, cx, matches });
        }
        let cx = self.cx_of(limited.as_ref());
        let outcome = if let Some(run) = &self.mounted.endpoint.run {
            plan.check_required(&read.args)?;
            run(self.inputs(on, cx, &form, Inputs::Operation(read.args, read.page, version))).await
        } else {
            let call = Call { cx, args: read.args, page: read.page, form: &form, version };
            plan.executor.run(&on.table, call).await.map_err(|error| on.table.told(plan.spec, error))
        };
        let outcome = match limited {
            None => outcome?,
            Some(limited) => limited.settle(on, outcome).await?,
        };
        let id = match &outcome {
            Outcome::Upserted(rows) if rows.created => rows.last.first().cloned(),
            _ => {
                return match with {
                    None => self.answer(on, outcome, plan.answer),
                    Some(with) => self.answer_with(on, &with, outcome, plan.answer).await,
                };
            }
        };
        let mut response = self.answer(on, outcome, plan.answer)?;
        self.created(&mut response, plan.births.as_ref(), id.as_ref());
        Ok(response)
    }

    /// 201, and where the new record is.
    fn created(&self, response: &mut Response<Body>, births: Option<&Births>, id: Option<&Value>) {
        *response.status_mut() = StatusCode::CREATED;
        let Some(births) = births else { return };
        let mut at = String::with_capacity(births.location.len() + 40);
        let mut parents = 0;
        for segment in births.location.split_inclusive('/') {
            if segment.starts_with('{') {
                // A parent is the one that this request names.
                at.push_str(self.params.get(parents).unwrap_or_default());
                at.push('/');
                parents += 1;
            } else {
                at.push_str(segment);
            }
        }
        match id {
            Some(Value::Text(id)) => path::push_segment(&mut at, id),
            Some(Value::Int(id)) => at.push_str(itoa::Buffer::new().format(*id)),
            _ => return,
        }
        // Percent-encoded text is a header value always.
        if let Ok(value) = HeaderValue::try_from(at) {
            response.headers_mut().insert(LOCATION, value);
        }
    }

    /// The record's id; `None` when the segment can be no key of the entity.
    fn id(&self, on: &Target) -> Option<Value> {
        // The record's id is the last parameter of a CRUD path.
        let text = self.params.get(self.params.len().checked_sub(1)?)?;
        on.table.parse_id(&path::decode(text)?)
    }

    /// The version of `If-Match`; problems with it are pushed.
    fn expected(&self, on: &Target, problems: &mut Vec<Problem>) -> Option<i64> {
        let version = precondition::if_match(&self.parts.headers).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        if version.is_some() && on.table.desc.version.is_none() {
            // Passing over it would lose the update it is there to prevent.
            problems.push(Problem::new("header:If-Match", "not_allowed", "records of this entity have no version"));
        }
        version
    }

    fn draft(&self, on: &Target, mode: Mode) -> Result<Draft> {
        let object = input::object(&self.parts.headers, &self.body)?;
        let mut draft = read_draft(on.table.desc, &object, mode, self.cx.now());
        if let Some(allowed) = &on.input {
            input::narrow(on.table.desc, &object, allowed, &mut draft);
        }
        Ok(draft)
    }

    /// `include` alone.
    fn only_include(&self, on: &Target) -> Result<Wanted> {
        let mut wanted = Wanted::default();
        let Some(query) = self.parts.uri.query().filter(|query| !query.is_empty()) else { return Ok(wanted) };
        let pairs = query::pairs(Some(query));
        let known = |pair: &&query::Pair<'_>| pair.key == include::NAME && !on.include.is_empty() && on.include.knows(pair);
        let names = || (!on.include.is_empty()).then_some(include::NAME);
        query::refuse_unknown(pairs.iter().filter(|pair| !known(pair)).map(|pair| &*pair.key), names)?;
        let mut problems = Vec::new();
        for (n, pair) in pairs.iter().enumerate() {
            if n > 0 {
                query::duplicate(pair, &mut problems);
            } else {
                wanted = on.include.read(pair, &mut problems);
            }
        }
        if problems.is_empty() { Ok(wanted) } else { Err(Error::validation(problems)) }
    }

    fn no_query(&self) -> Result<()> {
        match self.parts.uri.query() {
            None | Some("") => Ok(()),
            query => query::refuse_unknown(query::pairs(query).iter().map(|p| &*p.key), || None),
        }
    }

    fn no_body(&self) -> Result<()> {
        if self.body.is_empty() { Ok(()) } else { input::nothing(&self.parts.headers, &self.body) }
    }

    /// The call, limited to what it may do with one record; `None` where the policy asks for no permission. `moved` is what an
    /// update writes into the fields that it goes by.
    async fn limited(&self, on: &Target, id: &Value, moved: Moved) -> Result<Option<Permitted<'_>>> {
        let Some(permit) = self.mounted.permit() else { return Ok(None) };
        let (matches, looks) = (on.table.by_id(id.clone()), self.mounted.endpoint.run.is_some());
        let cx = Box::pin(permit.record(&on.table, &self.cx, &matches, moved, looks)).await?;
        Ok(Some(Permitted { permit, cx, matches: Some(matches) }))
    }

    fn cx_of<'a>(&'a self, limited: Option<&'a Permitted<'_>>) -> &'a Cx {
        limited.map_or(&self.cx, |limited| &limited.cx)
    }

    /// What an override of this route gets.
    fn inputs(&self, on: &Target, cx: &Cx, form: &Form, inputs: Inputs) -> OverrideCall {
        let (table, adapters, form) = (Arc::clone(&on.table), self.app.adapters.clone(), form.clone());
        OverrideCall { cx: cx.clone(), table, adapters, inputs, form, route: self.mounted.endpoint.action.name() }
    }

    /// What is to be included, if the caller may see it.
    async fn with(&self, on: &Target, wanted: &Wanted) -> Result<Option<Box<Includes>>> {
        if wanted.is_empty() {
            return Ok(None);
        }
        let asking = Asking { cx: &self.cx, parts: self.parts, adapters: &self.app.adapters };
        let includes = on.include.allowed(wanted, asking).await?;
        includes.admit()?;
        Ok(Some(Box::new(includes)))
    }

    async fn answer_with(&self, on: &Target, with: &Includes, outcome: Outcome, shape: Answer) -> Result<Response<Body>> {
        let outcome = with.complete(&on.table, &on.projection, outcome).await?;
        // The version is that of the record alone: what is shown beside it changes without it.
        let whole = HeaderMap::new();
        let mut response = answer::answer(on, outcome, &Shape { answer: shape, method: &self.parts.method, headers: &whole })?;
        if on.include.is_closed() {
            response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        }
        Ok(response)
    }

    fn answer(&self, on: &Target, outcome: Outcome, shape: Answer) -> Result<Response<Body>> {
        answer::answer(on, outcome, &Shape { answer: shape, method: &self.parts.method, headers: &self.parts.headers })
    }
}

/// The form in which a route reads its records.
fn form<'a>(on: &'a Target, with: Option<&Includes>) -> Cow<'a, Form> {
    match (with, &on.form) {
        (Some(with), Form::Json(projection)) => Cow::Owned(with.form(&on.table, projection)),
        (_, form) => Cow::Borrowed(form),
    }
}

/// The call below the parents that the path names.
///
/// # Errors
/// `not_found` when one can name no parent.
fn within(on: &Target, params: Params<'_>, mut cx: Cx) -> Result<Cx> {
    for (position, field) in &on.parents {
        let desc = on.table.desc;
        let text = params.get(*position).and_then(path::decode).ok_or_else(Error::not_found)?;
        let value = parse_scalar(&desc.fields[*field], &text).map_err(|_| Error::not_found())?;
        // One record has one path.
        if matches!(value, Value::Int(n) if itoa::Buffer::new().format(n) != text) {
            return Err(Error::not_found());
        }
        cx = cx.within_value(desc, *field, value);
    }
    Ok(cx)
}

/// Why an update goes no further: its own problems first, then the missing precondition, then the record.
fn refuse_update(on: &Target, draft: Draft, no_precondition: bool) -> Error {
    match on.table.checked_update(draft) {
        Err(problems) => problems,
        Ok(_) if no_precondition => precondition_required(),
        Ok(_) => Error::not_found(),
    }
}

fn precondition_required() -> Error {
    Error::new(Code::PreconditionRequired, "If-Match must name the version of the record")
}

/// Hands a request to a plugin's function: with its body read, or without looking at one.
async fn plugged(
    app: &App,
    mounted: &Mounted,
    plan: &PluggedPlan,
    params: Params<'_>,
    parts: &Parts,
    body: &mut Body,
    (cx, id): (Cx, &RequestId),
) -> Result<Response<Body>> {
    let takes = plan.takes_body() && !body.is_end_stream();
    let limit = mounted.endpoint.policy.timeout;
    let bytes = if takes { body::read(std::mem::take(body), mounted.max_body, limit, &app.room).await? } else { Bytes::new() };
    let from = cx.address();
    let answer = plan.run((cx, app.adapters.clone(), id), params, parts, from, &bytes).await;
    if !body.is_end_stream() {
        body::drain(body).await;
    }
    answer
}

/// Hands a request to the user's function.
async fn extra(
    app: &App,
    mounted: &Mounted,
    router: &axum::Router,
    parts: &Parts,
    mut body: Body,
    cx: Cx,
    id: &RequestId,
) -> Result<Response<Body>> {
    let max = mounted.endpoint.policy.max_body;
    if body.size_hint().lower() > max {
        body::drain(&mut body).await;
        return Err(body::too_large());
    }
    let mut parts = parts.clone();
    parts.extensions.insert(cx);
    parts.extensions.insert(app.adapters.clone());
    parts.extensions.insert(id.clone());
    let body = Body::new(Limited::new(body, usize::try_from(max).unwrap_or(usize::MAX)));
    let Ok(response) = router.clone().call(Request::from_parts(parts, body)).await;
    Ok(response)
}
