//! Evaluates the declared permission of a route and limits the call to the permitted records.

use std::sync::Arc;

use linchpin_core::policy::PermissionDesc;

use super::{AssignSpec, OpSpec, Subject, value_of};
use crate::cx::{CallConditions, refused};
use crate::entity::{DefaultDesc, EntityDesc, Kind, PageArgs, ScopeFrom};
use crate::filter::{CtxPath, Filter, SourceSpec};
use crate::permission::{AccessRequest, Decision, Evaluator, RankRequest};
use crate::resource::{Call, Form, Table};
use crate::{Code, Cx, Error, Result, Value};

/// The permission of a route, with its names resolved.
pub(crate) struct Permit {
    evaluator: Arc<dyn Evaluator>,
    declared: &'static PermissionDesc,
    entity: &'static EntityDesc,
    route: &'static str,
    subject: Subject,
    /// Position of the field that holds the owner.
    owner: Option<usize>,
    /// Position of the field that holds the resource.
    resource: Option<usize>,
    /// Position of the field that holds the user whom a record is about.
    rank: Option<usize>,
    /// Whether the path contains the resource.
    in_path: bool,
}

/// The values that a call writes into the fields of a permission, if any.
#[derive(Default)]
pub(crate) struct Moved {
    resource: Option<Value>,
    target: Option<Value>,
}

impl Permit {
    /// # Errors
    /// The name of a field that the entity lacks, as text that follows the name of the route.
    pub(crate) fn new(
        declared: &'static PermissionDesc,
        table: &Table,
        subject: Subject,
        route: &'static str,
        evaluator: Arc<dyn Evaluator>,
    ) -> Result<Self, String> {
        let entity = table.desc;
        let position = |name: Option<&'static str>| {
            let Some(name) = name else { return Ok(None) };
            let found = entity.fields.iter().position(|field| field.name == name);
            found.map(Some).ok_or_else(|| {
                format!("has a permission that names `{name}`, which the entity lacks")
            })
        };
        let (owner, resource, rank) = (
            position(declared.owner_field)?,
            position(declared.resource)?,
            position(declared.rank)?,
        );
        // The type of an aliased field is known only here.
        for (key, name, field) in [
            ("owner_field", declared.owner_field, owner),
            ("rank", declared.rank, rank),
        ] {
            if let (Some(name), Some(field)) = (name, field)
                && !matches!(entity.fields[field].kind, Kind::String)
            {
                return Err(format!(
                    "has a permission whose {key} `{name}` is no string"
                ));
            }
        }
        if rank.is_some() && matches!(subject, Subject::Records | Subject::Foreign) {
            return Err("has a permission with a `rank`, and works on no one record".to_owned());
        }
        let in_path = entity
            .scope
            .iter()
            .any(|scope| Some(scope.field) == resource && matches!(scope.from, ScopeFrom::Path(_)));
        Ok(Self {
            evaluator,
            declared,
            entity,
            route,
            subject,
            owner,
            resource,
            rank,
            in_path,
        })
    }

    /// Position of the field that holds the resource, if the record contains it.
    fn resource(&self) -> Option<usize> {
        self.resource.filter(|_| !self.in_path)
    }

    /// The values that a call writes into the fields of the permission, by position.
    pub(crate) fn moved(&self, written: impl Fn(usize) -> Option<Value>) -> Moved {
        Moved {
            resource: self.resource().and_then(&written),
            target: self.rank.and_then(&written),
        }
    }

    /// The decisions that need nothing of the request: all of them, if nothing depends on the
    /// record. Returns the call, limited to the records that it may touch.
    ///
    /// # Errors
    /// 403, or 404 if the policy hides records; 503 if the evaluator fails.
    pub(crate) async fn enter(&self, cx: Cx) -> Result<Cx> {
        match self.resource {
            // The record contains the user that it is about.
            _ if self.rank.is_some() => Ok(cx),
            Some(field) if self.in_path => {
                let resource = cx.bound(self.entity, field);
                self.limit(cx, resource, None, false).await
            }
            // The resource comes from the record or from the arguments of the call.
            Some(_) if self.subject != Subject::Foreign => Ok(cx),
            _ => self.limit(cx, None, None, false).await,
        }
    }

    /// Whether the evaluator needs values of the record.
    pub(crate) fn waits(&self) -> bool {
        (self.resource().is_some() || self.rank.is_some()) && self.subject != Subject::Foreign
    }

    /// The call, limited to the permitted records of a resource, and of the user that they are
    /// about. With `pinned`, the resource itself becomes a condition too.
    async fn limit(
        &self,
        cx: Cx,
        resource: Option<Value>,
        target: Option<Value>,
        pinned: bool,
    ) -> Result<Cx> {
        let granted = self.ask(&cx, resource.as_ref()).await?;
        let owned = match (granted, self.owner) {
            (Some(action), _) => {
                self.compare(&cx, action, resource.as_ref(), target.as_ref())
                    .await?;
                None
            }
            (None, Some(owner)) if self.subject != Subject::Foreign => {
                match cx.value(CtxPath::ActorId) {
                    Value::Null => return Err(self.refused()),
                    id => Some((owner, id)),
                }
            }
            (None, _) => return Err(self.refused()),
        };
        // A resource in the path already limits the records.
        let of = self.resource().zip(resource).filter(|_| pinned);
        // The rank does not matter for the caller's own records.
        let about = self
            .rank
            .zip(target)
            .filter(|_| pinned && granted.is_some());
        if owned.is_none() && of.is_none() && about.is_none() {
            return Ok(cx);
        }
        Ok(cx.limited(CallConditions::new(
            self.entity,
            owned.into_iter().chain(of).chain(about),
            self.declared.hide,
        )))
    }

    /// Confirms a grant, unless the caller does not rank above the user that the record is about. A
    /// record may be about no user.
    async fn compare(
        &self,
        cx: &Cx,
        action: &str,
        resource: Option<&Value>,
        target: Option<&Value>,
    ) -> Result<()> {
        let (Some(actor), Some(Value::Text(target))) =
            (cx.get_actor(), target.filter(|_| self.rank.is_some()))
        else {
            return Ok(());
        };
        // Outside of the transaction, as in `ask`.
        let beside = cx.beside_transaction();
        let access = AccessRequest {
            cx: &beside,
            actor,
            action,
            entity: self.entity.name,
            route: self.route,
            resource,
        };
        let decision = self.evaluator.rank(RankRequest { access, target }).await;
        self.granted(decision.map_err(Error::unavailable)?)
            .map(drop)
    }

    /// Whether a decision grants; an error if it refuses.
    fn granted(&self, decision: Decision) -> Result<bool> {
        match decision {
            Decision::Allow => Ok(true),
            Decision::Abstain => Ok(false),
            Decision::DenyWith(reason) if !self.declared.hide && reason.code().status() == 403 => {
                Err(reason)
            }
            Decision::Deny | Decision::DenyWith(_) => Err(self.refused()),
        }
    }

    /// The first action that the evaluator allows; `None` if it abstains from all.
    async fn ask(&self, cx: &Cx, resource: Option<&Value>) -> Result<Option<&'static str>> {
        let Some(actor) = cx.get_actor() else {
            return Ok(Some(self.declared.requires));
        };
        let (entity, route) = (self.entity.name, self.route);
        // An evaluator may call with a context of its own, which would wait for the end of a
        // transaction that has begun. This is safe: the granted limits become conditions of the
        // statement.
        let cx = &cx.beside_transaction();
        let mut allowed = None;
        for action in std::iter::once(&self.declared.requires).chain(self.declared.or) {
            let decision = self
                .evaluator
                .decide(AccessRequest {
                    cx,
                    actor,
                    action,
                    entity,
                    route,
                    resource,
                })
                .await;
            if self.granted(decision.map_err(Error::unavailable)?)? {
                allowed = allowed.or(Some(*action));
            }
        }
        Ok(allowed)
    }

    /// Whether a grant covers the resource and the user that a call writes into a record: a caller
    /// who may change records there, about that user, may move a record there. Being the owner does
    /// not count, because the record is not there yet.
    async fn may_move(
        &self,
        cx: &Cx,
        resource: Option<&Value>,
        target: Option<&Value>,
    ) -> Result<()> {
        let action = self
            .ask(cx, resource)
            .await?
            .ok_or_else(|| self.refused())?;
        self.compare(cx, action, resource, target).await
    }

    /// The call, limited to the one matching record. `moved` are the values that it writes into the
    /// fields of the permission. `looks` says that the following code is the app's own, so the
    /// record is checked first.
    ///
    /// # Errors
    /// `not_found` if the record is not visible; else like [`Permit::enter`].
    pub(crate) async fn record(
        &self,
        table: &Table,
        cx: &Cx,
        matches: &Filter,
        moved: Moved,
        looks: bool,
    ) -> Result<Cx> {
        if !self.waits() {
            if let (Some(only), true) = (cx.only(self.entity), looks) {
                let found = self
                    .look(table, cx, matches)
                    .await?
                    .ok_or_else(Error::not_found)?;
                only.admits(&found)?;
            }
            return Ok(cx.clone());
        }
        let found = self
            .look(table, cx, matches)
            .await?
            .ok_or_else(Error::not_found)?;
        let resource = self.resource.map(|field| found[field].clone());
        let target = self.rank.map(|field| found[field].clone());
        let moved_to = moved
            .resource
            .filter(|moved| Some(moved) != resource.as_ref());
        let about = moved.target.filter(|moved| Some(moved) != target.as_ref());
        if moved_to.is_some() || about.is_some() {
            self.may_move(
                cx,
                moved_to.as_ref().or(resource.as_ref()),
                about.as_ref().or(target.as_ref()),
            )
            .await?;
        }
        let cx = self.limit(cx.clone(), resource, target, true).await?;
        if let Some(only) = cx.only(self.entity) {
            only.admits(&found)?;
        }
        Ok(cx)
    }

    /// The call, limited for a record that it creates.
    ///
    /// # Errors
    /// Like [`Permit::enter`].
    pub(crate) async fn new_record(&self, cx: &Cx, values: &[Value]) -> Result<Cx> {
        let value = |field: Option<usize>| {
            field.and_then(|field| {
                cx.bound(self.entity, field)
                    .or_else(|| values.get(field).cloned())
            })
        };
        let cx = if self.waits() {
            self.limit(cx.clone(), value(self.resource), value(self.rank), true)
                .await?
        } else {
            cx.clone()
        };
        if let Some(only) = cx.only(self.entity) {
            only.admits(values)?;
        }
        Ok(cx)
    }

    /// The call of an operation, limited to the permitted records, and the one record that it
    /// names.
    ///
    /// # Errors
    /// Like [`Permit::record`].
    pub(crate) async fn operation(
        &self,
        table: &Table,
        cx: &Cx,
        spec: &OpSpec,
        args: &[Option<Value>],
        looks: bool,
    ) -> Result<(Cx, Option<Filter>)> {
        let looks = looks || spec.kind.runs_code();
        let written = |field: Option<usize>| match field
            .filter(|_| self.waits())
            .and_then(|field| spec.kind.writes(field))
        {
            Some(source) => given(source, cx, args),
            None => Ok(None),
        };
        let written = Moved {
            resource: written(self.resource())?,
            target: written(self.rank)?,
        };
        let cx = match self.subject {
            Subject::Record => {
                if self.waits() || looks {
                    // Invalid input is reported first. Otherwise the executor validates it, and the
                    // record is read only after that.
                    valid(table, spec, cx, args)?;
                }
                let matches = matches(table, spec, cx, args)?;
                return Ok((
                    self.record(table, cx, &matches, written, looks).await?,
                    Some(matches),
                ));
            }
            Subject::Either => {
                let matches = matches(table, spec, cx, args)?;
                let cx = if self.waits() {
                    let value = |field: Option<usize>, written: Option<Value>| {
                        field.map(|field| {
                            cx.bound(self.entity, field)
                                .or(written)
                                .unwrap_or_else(|| by_default(self.entity, field, cx))
                        })
                    };
                    let (resource, target) = (
                        value(self.resource, written.resource),
                        value(self.rank, written.target),
                    );
                    self.limit(cx.clone(), resource, target, true).await?
                } else {
                    cx.clone()
                };
                if let Some(only) = cx.only(self.entity)
                    && let Some(found) = self.look(table, &cx, &matches).await?
                {
                    only.admits(&found)?;
                }
                return Ok((cx, Some(matches)));
            }
            Subject::Records if self.waits() => {
                // The resource comes from an equality condition on all records found; without such
                // a condition, the grant must cover all resources.
                let matched = spec
                    .kind
                    .matches()
                    .iter()
                    .find(|assign| Some(assign.field) == self.resource);
                let resource = matched
                    .map(|assign| given(&assign.value, cx, args))
                    .transpose()?
                    .flatten();
                if let Some(moved) = written
                    .resource
                    .filter(|moved| Some(moved) != resource.as_ref())
                {
                    // A move into another resource, like for one record.
                    valid(table, spec, cx, args)?;
                    self.may_move(cx, Some(&moved), None).await?;
                }
                self.limit(cx.clone(), resource, None, false).await?
            }
            Subject::Records | Subject::New | Subject::Foreign => cx.clone(),
        };
        Ok((cx, None))
    }

    /// The call of a list, limited to the permitted records.
    ///
    /// # Errors
    /// Like [`Permit::enter`].
    pub(crate) async fn list(&self, cx: &Cx) -> Result<Cx> {
        if self.waits() {
            self.limit(cx.clone(), None, None, false).await
        } else {
            Ok(cx.clone())
        }
    }

    /// The error for a call that found nothing to change because of its permission.
    pub(crate) async fn explain(
        &self,
        table: &Table,
        cx: &Cx,
        matches: &Filter,
        error: Error,
    ) -> Error {
        let Some(only) = cx.only(self.entity) else {
            return error;
        };
        if !matches!(error.code(), Code::NotFound | Code::Conflict)
            || (self.declared.hide && error.code() == Code::NotFound)
        {
            return error;
        }
        match self.find(table, &cx.unlimited(), matches).await {
            Ok(Some(found))
                if self.waits()
                    && self
                        .resource
                        .into_iter()
                        .chain(self.rank)
                        .any(|field| !same(only, field, &found)) =>
            {
                // The record was moved during the check: the decision was about another resource.
                Error::kept_changing()
            }
            Ok(Some(found)) => only.admits(&found).err().unwrap_or(error),
            Ok(None) => error,
            Err(failed) => failed,
        }
    }

    /// The matching record among those that the call can see, with any permission. It is read
    /// before the change, so outside of the transaction of the call.
    async fn look(&self, table: &Table, cx: &Cx, matches: &Filter) -> Result<Option<Box<[Value]>>> {
        self.find(table, &cx.unlimited().beside_transaction(), matches)
            .await
    }

    /// Like [`Permit::look`], within the transaction, after it has found nothing.
    async fn find(&self, table: &Table, cx: &Cx, matches: &Filter) -> Result<Option<Box<[Value]>>> {
        let found = table
            .first(cx, self.route, matches.clone(), Vec::new(), &Form::Records)
            .await?;
        Ok(found.records.into_iter().next())
    }

    fn refused(&self) -> Error {
        refused(self.declared.hide)
    }
}

/// Whether a record has the value of a field that a call is limited to.
fn same(only: &CallConditions, field: usize, record: &[Value]) -> bool {
    only.conditions()
        .iter()
        .all(|(at, value)| *at != field || record.get(field) == Some(value))
}

/// The one record that an operation names.
pub(crate) fn matches(
    table: &Table,
    spec: &OpSpec,
    cx: &Cx,
    args: &[Option<Value>],
) -> Result<Filter> {
    let own = spec.kind.matches();
    if own.is_empty() {
        let id = spec.params.iter().position(|p| p.place == super::Place::Id);
        let id = id
            .and_then(|id| args.get(id).cloned().flatten())
            .ok_or_else(Error::not_found)?;
        return Ok(table.by_id(id));
    }
    super::resolve(super::equalities(own), cx, args)
}

/// Validates the values that an operation writes.
///
/// # Errors
/// `validation_failed` with all problems.
fn valid(table: &Table, spec: &OpSpec, cx: &Cx, args: &[Option<Value>]) -> Result<()> {
    let written = (0..table.desc.fields.len()).filter_map(|field| {
        Some(AssignSpec {
            field,
            value: *spec.kind.writes(field)?,
        })
    });
    let written: Vec<AssignSpec> = written.collect();
    let call = Call {
        cx,
        args: args.to_vec(),
        page: PageArgs::default(),
        form: &Form::Records,
        version: None,
    };
    super::check(spec, table, &call, &written)
}

/// The value of a source, unless it is a parameter that the call omits.
fn given(source: &SourceSpec, cx: &Cx, args: &[Option<Value>]) -> Result<Option<Value>> {
    match source {
        SourceSpec::Param(index) => Ok(args.get(*index).cloned().flatten()),
        other => value_of(&other.into(), cx, args).map(Some),
    }
}

/// The default value of a field of a new record.
fn by_default(entity: &EntityDesc, field: usize, cx: &Cx) -> Value {
    match entity.fields[field].default {
        DefaultDesc::Literal(value) => value(),
        DefaultDesc::Ctx(path) => cx.value(path),
        _ => Value::Null,
    }
}

/// Checks the permission to list an entity, in addition to auth and roles: returns the call,
/// limited to the visible records.
///
/// # Errors
/// Like [`Permit::enter`].
pub(crate) async fn may_list(table: &Table, cx: &Cx) -> Result<Cx> {
    let Some(declared) = table.desc.list_policy().permission else {
        return Ok(cx.clone());
    };
    let evaluator = table
        .evaluator()
        .ok_or_else(|| Error::internal("no permission evaluator is installed"))?;
    let permit = Permit::new(declared, table, Subject::Records, "list", evaluator)
        .map_err(Error::internal)?;
    let cx = permit.enter(cx.clone()).await?;
    permit.list(&cx).await
}
