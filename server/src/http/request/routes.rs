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
use crate::operation::permit::WrittenValues;
use crate::resource::{Call, Draft, Outcome};
use crate::validate::Mode;
use crate::{Code, Error, Result, Value};

impl EntityRequest<'_> {
    pub(in crate::http) async fn get(&self, target: &Target) -> Result<Response<Body>> {
        let wanted = self.only_include(target)?;
        self.no_body()?;
        let id = self.id(target).ok_or_else(Error::not_found)?;
        // The relations are boxed, so that the future of a read by key stays small.
        let includes = if wanted.is_empty() {
            None
        } else {
            Box::pin(self.allowed_includes(target, &wanted)).await?
        };
        let form = form(target, includes.as_deref());
        let limited = self.limited(target, &id, WrittenValues::default()).await?;
        let cx = self.cx_of(limited.as_ref());
        let outcome = match &self.head.mounted.endpoint.run {
            Some(run) => run(self.inputs(target, cx, &form, Inputs::Get(id))).await,
            None => target.table.get(cx, id, &form).await.map(Outcome::Record),
        };
        let outcome = match limited {
            None => outcome?,
            Some(limited) => {
                limited
                    .settle(target, permitted::require_record(outcome))
                    .await?
            }
        };
        match includes {
            None => self.answer(target, outcome, Answer::Record),
            Some(includes) => {
                Box::pin(self.answer_with(target, &includes, outcome, Answer::Record)).await
            }
        }
    }

    pub(in crate::http) async fn list(
        &self,
        target: &Target,
        list: &ListParams,
    ) -> Result<Response<Body>> {
        let (request, wanted) = list.read(self.head.parts.uri.query(), &target.include)?;
        self.no_body()?;
        let includes = self.allowed_includes(target, &wanted).await?;
        let form = form(target, includes.as_deref());
        let limited = match self.head.mounted.permit() {
            Some(permit) => Some(permit.list(&self.cx).await?),
            None => None,
        };
        let cx = limited.as_ref().unwrap_or(&self.cx);
        let outcome = match &self.head.mounted.endpoint.run {
            Some(run) => run(self.inputs(target, cx, &form, Inputs::List(request))).await?,
            None => target.table.list(cx, request, &form).await?,
        };
        match includes {
            None => self.answer(target, outcome, Answer::Page),
            Some(includes) => {
                self.answer_with(target, &includes, outcome, Answer::Page)
                    .await
            }
        }
    }

    pub(in crate::http) async fn create(
        &self,
        target: &Target,
        location: &NewRecordLocation,
    ) -> Result<Response<Body>> {
        self.no_query()?;
        let mut draft = self.draft(target, Mode::Create)?;
        let id = draft
            .values
            .get(target.table.desc.primary)
            .and_then(Option::as_ref);
        location.check(&target.table, id, &mut draft.problems);
        let mut limited = None;
        if let Some(permit) = self.head.mounted.permit() {
            draft = target.table.checked_create(&self.cx, draft)?;
            let values: Vec<Value> = draft
                .values
                .iter()
                .map(|value| value.clone().unwrap_or_default())
                .collect();
            limited = Some(permit.new_record(&self.cx, &values).await?);
        }
        let cx = limited.as_ref().unwrap_or(&self.cx);
        let (outcome, id) = if let Some(run) = &self.head.mounted.endpoint.run {
            let draft = target.table.checked_create(cx, draft)?;
            let outcome = run(self.inputs(target, cx, &target.form, Inputs::Create(draft))).await?;
            let id = answer::id_of(&target.table, &outcome);
            (outcome, id)
        } else {
            let (rows, id) = target.table.create(cx, draft, &target.form).await?;
            (Outcome::Record(rows), Some(id))
        };
        let mut response = self.answer(target, outcome, Answer::Record)?;
        self.set_created(&mut response, Some(location), id.as_ref());
        Ok(response)
    }

    pub(in crate::http) async fn update(&self, target: &Target) -> Result<Response<Body>> {
        self.no_query()?;
        let mut draft = self.draft(target, Mode::Update)?;
        let version = self.expected_version(target, &mut draft.problems);
        let missing = version.is_none()
            && target
                .table
                .desc
                .version
                .is_some_and(|v| v.required_on_write);
        let id = match self.id(target) {
            Some(id) if !missing => id,
            _ => return Err(refuse_update(target, draft, missing)),
        };
        let mut limited = None;
        if let Some(permit) = self.head.mounted.permit() {
            draft = target.table.checked_update(draft)?;
            let written = permit.written_values(|field| draft.values[field].clone());
            limited = self.limited(target, &id, written).await?;
        }
        let cx = self.cx_of(limited.as_ref());
        let outcome = match &self.head.mounted.endpoint.run {
            Some(run) => {
                run(self.inputs(
                    target,
                    cx,
                    &target.form,
                    Inputs::Update(id, target.table.checked_update(draft)?, version),
                ))
                .await
            }
            None => target
                .table
                .update(cx, id, draft, version, &target.form)
                .await
                .map(Outcome::Record),
        };
        let outcome = match limited {
            None => outcome?,
            Some(limited) => limited.settle(target, outcome).await?,
        };
        self.answer(target, outcome, Answer::Record)
    }

    pub(in crate::http) async fn delete(&self, target: &Target) -> Result<Response<Body>> {
        self.no_query()?;
        self.no_body()?;
        let mut problems = Vec::new();
        let version = self.expected_version(target, &mut problems);
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        if version.is_none()
            && target
                .table
                .desc
                .version
                .is_some_and(|v| v.required_on_write)
        {
            return Err(precondition_required());
        }
        let id = self.id(target).ok_or_else(Error::not_found)?;
        let limited = self.limited(target, &id, WrittenValues::default()).await?;
        let cx = self.cx_of(limited.as_ref());
        let done = match &self.head.mounted.endpoint.run {
            Some(run) => run(self.inputs(target, cx, &target.form, Inputs::Delete(id, version)))
                .await
                .map(drop),
            None => target.table.delete(cx, id, version).await,
        };
        match limited {
            None => done?,
            Some(limited) => limited.settle(target, done).await?,
        }
        Ok(response::empty(StatusCode::NO_CONTENT))
    }

    pub(in crate::http) async fn operation(
        &self,
        target: &Target,
        plan: &OperationPlan,
    ) -> Result<Response<Body>> {
        let mut problems = Vec::new();
        let version = if plan.conditional {
            self.expected_version(target, &mut problems)
        } else {
            None
        };
        let read = plan.read(target, self, problems)?;
        if let Some(location) = &plan.location {
            let mut problems = Vec::new();
            location.check(
                &target.table,
                plan.argument(&read, target.table.desc.primary),
                &mut problems,
            );
            if !problems.is_empty() {
                return Err(Error::validation(problems));
            }
        }
        let includes = self.allowed_includes(target, &read.wanted).await?;
        let form = form(target, includes.as_deref());
        let mut limited = None;
        if let Some(permit) = self.head.mounted.permit() {
            plan.check_required(&read.args)?;
            let runs_app_code = self.head.mounted.endpoint.run.is_some();
            let (cx, matches) = Box::pin(permit.operation(
                &target.table,
                &self.cx,
                plan.spec,
                &read.args,
                runs_app_code,
            ))
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
                target,
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
                .run(&target.table, call)
                .await
                .map_err(|error| target.table.at_parameters(plan.spec, error))
        };
        let outcome = match limited {
            None => outcome?,
            Some(limited) => limited.settle(target, outcome).await?,
        };
        let id = match &outcome {
            Outcome::Upserted(rows) if rows.created => rows.last.first().cloned(),
            _ => {
                return match includes {
                    None => self.answer(target, outcome, plan.answer),
                    Some(includes) => {
                        self.answer_with(target, &includes, outcome, plan.answer)
                            .await
                    }
                };
            }
        };
        let mut response = self.answer(target, outcome, plan.answer)?;
        self.set_created(&mut response, plan.location.as_ref(), id.as_ref());
        Ok(response)
    }
}

/// The error of an update with an impossible id or without a required `If-Match`: problems of the
/// body first, then the missing precondition, then `not_found`.
fn refuse_update(target: &Target, draft: Draft, no_precondition: bool) -> Error {
    match target.table.checked_update(draft) {
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
