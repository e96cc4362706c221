//! The five routes of an entity, and its operations.

use axum::body::Body;
use axum::http::{Response, StatusCode};

use super::{EntityRequest, form};
use crate::http::list::ListParams;
use crate::http::mounted::Target;
use crate::http::operation::{NewRecordLocation, OperationPlan};
use crate::http::overrides::Inputs;
use crate::http::permitted::{self, Permitted};
use crate::http::{answer, response};
use crate::operation::Answer;
use crate::operation::permit::Moved;
use crate::resource::{Call, Draft, Outcome};
use crate::validate::Mode;
use crate::{Code, Error, Result, Value};

impl EntityRequest<'_> {
    pub(in crate::http) async fn get(&self, on: &Target) -> Result<Response<Body>> {
        let wanted = self.only_include(on)?;
        self.no_body()?;
        let id = self.id(on).ok_or_else(Error::not_found)?;
        // The relations are boxed, so that the future of a read by key stays small.
        let with = if wanted.is_empty() {
            None
        } else {
            Box::pin(self.with(on, &wanted)).await?
        };
        let form = form(on, with.as_deref());
        let limited = self.limited(on, &id, Moved::default()).await?;
        let cx = self.cx_of(limited.as_ref());
        let outcome = match &self.head.mounted.endpoint.run {
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

    pub(in crate::http) async fn list(
        &self,
        on: &Target,
        list: &ListParams,
    ) -> Result<Response<Body>> {
        let (request, wanted) = list.read(self.head.parts.uri.query(), &on.include)?;
        self.no_body()?;
        let with = self.with(on, &wanted).await?;
        let form = form(on, with.as_deref());
        let limited = match self.head.mounted.permit() {
            Some(permit) => Some(permit.list(&self.cx).await?),
            None => None,
        };
        let cx = limited.as_ref().unwrap_or(&self.cx);
        let outcome = match &self.head.mounted.endpoint.run {
            Some(run) => run(self.inputs(on, cx, &form, Inputs::List(request))).await?,
            None => on.table.list(cx, request, &form).await?,
        };
        match with {
            None => self.answer(on, outcome, Answer::Page),
            Some(with) => self.answer_with(on, &with, outcome, Answer::Page).await,
        }
    }

    pub(in crate::http) async fn create(
        &self,
        on: &Target,
        location: &NewRecordLocation,
    ) -> Result<Response<Body>> {
        self.no_query()?;
        let mut draft = self.draft(on, Mode::Create)?;
        let id = draft
            .values
            .get(on.table.desc.primary)
            .and_then(Option::as_ref);
        location.check(&on.table, id, &mut draft.problems);
        let mut limited = None;
        if let Some(permit) = self.head.mounted.permit() {
            draft = on.table.checked_create(&self.cx, draft)?;
            let values: Vec<Value> = draft
                .values
                .iter()
                .map(|value| value.clone().unwrap_or_default())
                .collect();
            limited = Some(permit.new_record(&self.cx, &values).await?);
        }
        let cx = limited.as_ref().unwrap_or(&self.cx);
        let (outcome, id) = if let Some(run) = &self.head.mounted.endpoint.run {
            let draft = on.table.checked_create(cx, draft)?;
            let outcome = run(self.inputs(on, cx, &on.form, Inputs::Create(draft))).await?;
            let id = answer::id_of(&on.table, &outcome);
            (outcome, id)
        } else {
            let (rows, id) = on.table.create(cx, draft, &on.form).await?;
            (Outcome::Record(rows), Some(id))
        };
        let mut response = self.answer(on, outcome, Answer::Record)?;
        self.created(&mut response, Some(location), id.as_ref());
        Ok(response)
    }

    pub(in crate::http) async fn update(&self, on: &Target) -> Result<Response<Body>> {
        self.no_query()?;
        let mut draft = self.draft(on, Mode::Update)?;
        let version = self.expected(on, &mut draft.problems);
        let missing =
            version.is_none() && on.table.desc.version.is_some_and(|v| v.required_on_write);
        let id = match self.id(on) {
            Some(id) if !missing => id,
            _ => return Err(refuse_update(on, draft, missing)),
        };
        let mut limited = None;
        if let Some(permit) = self.head.mounted.permit() {
            draft = on.table.checked_update(draft)?;
            let moved = permit.moved(|field| draft.values[field].clone());
            limited = self.limited(on, &id, moved).await?;
        }
        let cx = self.cx_of(limited.as_ref());
        let outcome = match &self.head.mounted.endpoint.run {
            Some(run) => {
                run(self.inputs(
                    on,
                    cx,
                    &on.form,
                    Inputs::Update(id, on.table.checked_update(draft)?, version),
                ))
                .await
            }
            None => on
                .table
                .update(cx, id, draft, version, &on.form)
                .await
                .map(Outcome::Record),
        };
        let outcome = match limited {
            None => outcome?,
            Some(limited) => limited.settle(on, outcome).await?,
        };
        self.answer(on, outcome, Answer::Record)
    }

    pub(in crate::http) async fn delete(&self, on: &Target) -> Result<Response<Body>> {
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
        let done = match &self.head.mounted.endpoint.run {
            Some(run) => run(self.inputs(on, cx, &on.form, Inputs::Delete(id, version)))
                .await
                .map(drop),
            None => on.table.delete(cx, id, version).await,
        };
        match limited {
            None => done?,
            Some(limited) => limited.settle(on, done).await?,
        }
        Ok(response::empty(StatusCode::NO_CONTENT))
    }

    pub(in crate::http) async fn operation(
        &self,
        on: &Target,
        plan: &OperationPlan,
    ) -> Result<Response<Body>> {
        let mut problems = Vec::new();
        let version = if plan.conditional {
            self.expected(on, &mut problems)
        } else {
            None
        };
        let read = plan.read(on, self, problems)?;
        if let Some(location) = &plan.location {
            let mut problems = Vec::new();
            location.check(
                &on.table,
                plan.argument(&read, on.table.desc.primary),
                &mut problems,
            );
            if !problems.is_empty() {
                return Err(Error::validation(problems));
            }
        }
        let with = self.with(on, &read.wanted).await?;
        let form = form(on, with.as_deref());
        let mut limited = None;
        if let Some(permit) = self.head.mounted.permit() {
            plan.check_required(&read.args)?;
            let looks = self.head.mounted.endpoint.run.is_some();
            let (cx, matches) =
                Box::pin(permit.operation(&on.table, &self.cx, plan.spec, &read.args, looks))
                    .await?;
            limited = Some(Permitted {
                permit,
                cx,
                matches,
            });
        }
        let cx = self.cx_of(limited.as_ref());
        let outcome = if let Some(run) = &self.head.mounted.endpoint.run {
            plan.check_required(&read.args)?;
            run(self.inputs(
                on,
                cx,
                &form,
                Inputs::Operation(read.args, read.page, version),
            ))
            .await
        } else {
            let call = Call {
                cx,
                args: read.args,
                page: read.page,
                form: &form,
                version,
            };
            plan.executor
                .run(&on.table, call)
                .await
                .map_err(|error| on.table.at_parameters(plan.spec, error))
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
        self.created(&mut response, plan.location.as_ref(), id.as_ref());
        Ok(response)
    }
}

/// Why an update goes no further: its own problems first, then the missing precondition, then the
/// record.
fn refuse_update(on: &Target, draft: Draft, no_precondition: bool) -> Error {
    match on.table.checked_update(draft) {
        Err(problems) => problems,
        Ok(_) if no_precondition => precondition_required(),
        Ok(_) => Error::not_found(),
    }
}

fn precondition_required() -> Error {
    Error::new(
        Code::PreconditionRequired,
        "If-Match must name the version of the record",
    )
}
