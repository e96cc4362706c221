//! The declaration of an operation as static data.

use std::marker::PhantomData;

use linchpin_vocabulary::kind::{Changes, Records};

use crate::ContextDesc;
use crate::entity::{Entity, EntityDesc, FieldDesc, SourceLine};
use crate::filter::SourceSpec;
use crate::policy::PolicyDesc;

use super::kind::Kind;
pub use crate::route::{Method, RouteSpec, Seg};

/// An operation on `E`. The consts with `#[operation]` have this type.
pub struct Operation<E> {
    spec: &'static OpSpec,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Operation<E> {
    /// Wraps the output of the macro.
    #[doc(hidden)]
    pub const fn new(spec: &'static OpSpec) -> Self {
        Self {
            spec,
            entity: PhantomData,
        }
    }

    /// Returns the declaration.
    pub const fn spec(&self) -> &'static OpSpec {
        self.spec
    }
}

impl<E> Operation<E> {
    /// Replaces a declaration that does not compile, so that code that uses it compiles and one
    /// mistake causes one error.
    #[doc(hidden)]
    pub const fn poisoned() -> Self {
        static POISONED: OpSpec = OpSpec::new("", &super::Exists::new(&[]));
        Self {
            spec: &POISONED,
            entity: PhantomData,
        }
    }
}

impl<E> Clone for Operation<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Operation<E> {}

/// The options that all kinds share.
#[derive(Debug)]
pub struct OpSpec {
    /// The name of the adapter method, in snake_case.
    pub name: &'static str,
    /// The kind and its options.
    pub kind: &'static dyn Kind,
    /// The call parameters, in order of first use.
    pub params: &'static [ParamSpec],
    /// The routes below the path of the entity; empty if the operation is disabled.
    pub routes: &'static [RouteSpec],
    /// The operations that a collection consists of, each with one route; empty for a single
    /// operation.
    pub parts: &'static [&'static OpSpec],
    /// Its part of the route policy, which is merged over `routes.defaults`.
    pub policy: PolicyDesc,
    /// The reason why the data scope does not apply. The tenant always applies.
    pub unscoped: Option<&'static str>,
    /// The context values that it reads, without those of the actor.
    pub context: &'static [ContextDesc],
    /// The doc comment.
    pub doc: &'static str,
    /// The source location of the declaration.
    pub at: SourceLine,
}

/// A call parameter.
#[derive(Debug, Clone, Copy)]
pub struct ParamSpec {
    /// The camelCase wire name.
    pub name: &'static str,
    /// The position of the field whose type the parameter has.
    pub field: usize,
    /// The entity of that field, if it is not the entity of the operation.
    pub entity: Option<&'static EntityDesc>,
    /// The position in an HTTP request.
    pub place: Place,
    /// Whether a call must send it.
    pub required: bool,
    /// Whether null is a valid value.
    pub nullable: bool,
    /// Whether it is a list of the field's type.
    pub list: bool,
    /// Whether it is one element of a field that is a list of strings.
    pub element: bool,
    /// The value of calls that omit it: a literal or the time of the call.
    pub default: Option<SourceSpec>,
}

impl ParamSpec {
    /// Returns the field whose type the parameter has; `own` is the entity of the operation.
    pub fn field_of(&self, own: &EntityDesc) -> &'static FieldDesc {
        &self.entity.map_or(own.fields, |entity| entity.fields)[self.field]
    }

    /// Whether a call that omits it drops its conditions.
    #[doc(hidden)]
    pub fn may_miss(&self) -> bool {
        !self.required && self.default.is_none()
    }
}

/// The records that a permission is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// One existing record, which the call names.
    Record,
    /// One new record.
    New,
    /// One record that the call names, new or existing.
    Either,
    /// All records that match.
    Records,
    /// No record that the entity's policy can check: a function of the app, or records of other
    /// entities.
    Foreign,
}

impl OpSpec {
    /// The records that a permission is checked for.
    pub fn subject(&self) -> Subject {
        let has_id = || self.params.iter().any(|p| p.place == Place::Id);
        let names_one = || !self.kind.matches().is_empty() || has_id();
        let facts = self.kind.facts();
        match (facts.records, facts.changes) {
            (Records::One, Changes::NewOrOne) => Subject::Either,
            (Records::One, _) if names_one() => Subject::Record,
            (Records::Many, _) => Subject::Records,
            // A function may change any record. A permission can only check the record in the path.
            (Records::OfPath, _) if has_id() => Subject::Record,
            (Records::One | Records::OfPath | Records::Foreign, _) => Subject::Foreign,
        }
    }

    /// Sets omitted parameters to their declared defaults. It runs once per call, before any code
    /// reads the arguments.
    #[doc(hidden)]
    pub fn complete(&self, now: impl Fn() -> crate::Timestamp, args: &mut [Option<crate::Value>]) {
        for (arg, param) in args.iter_mut().zip(self.params) {
            if let (None, Some(default)) = (&arg, &param.default) {
                *arg = match default {
                    SourceSpec::Literal(value) => Some(value()),
                    SourceSpec::Now => Some(crate::Value::Date(now())),
                    // A declaration cannot name another parameter.
                    SourceSpec::Param(_) | SourceSpec::Ctx(_) => None,
                };
            }
        }
    }
}

/// The position of a parameter in an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The `{id}` segment of the record.
    Id,
    /// A path segment. A lookup or an `exists` may have another route without this segment; there,
    /// the parameter is in the query string.
    Segment,
    /// The query string.
    Query,
    /// A top-level member of the body.
    Body,
    /// The whole body.
    Whole(Whole),
}

/// The content of a whole body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whole {
    /// One item of the parameter's field.
    Item,
    /// Members of one item.
    Patch,
    /// A list of items.
    Items,
}

/// Returns the value that a list of assignments writes to a field.
pub(super) fn written(list: &'static [AssignSpec], field: usize) -> Option<&'static SourceSpec> {
    list.iter()
        .find(|assign| assign.field == field)
        .map(|assign| &assign.value)
}

/// A field that an operation writes.
#[derive(Debug, Clone, Copy)]
pub struct AssignSpec {
    /// The position of the field.
    pub field: usize,
    /// The value. An omitted optional parameter leaves the field unchanged.
    pub value: SourceSpec,
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// The record.
    Entity,
    /// `true` or `false`.
    Boolean,
    /// One record or null.
    One,
    /// A page.
    Many,
}
