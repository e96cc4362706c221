//! An operation as declared: static data.

use std::marker::PhantomData;

use linchpin_vocabulary::kind::{Changes, Records};

use crate::ContextDesc;
use crate::entity::{Entity, EntityDesc, FieldDesc, SourceLine};
use crate::filter::SourceSpec;
use crate::policy::PolicyDesc;

use super::kind::Kind;
pub use crate::route::{Method, RouteSpec, Seg};

/// An operation on `E`: the type of the consts under `#[operation]`.
pub struct Operation<E> {
    spec: &'static OpSpec,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Operation<E> {
    /// Wraps what the macro wrote.
    #[doc(hidden)]
    pub const fn new(spec: &'static OpSpec) -> Self {
        Self {
            spec,
            entity: PhantomData,
        }
    }

    /// The declaration, as data.
    pub const fn spec(&self) -> &'static OpSpec {
        self.spec
    }
}

impl<E> Operation<E> {
    /// Stands in for a declaration that does not compile, so that its users do: one mistake, one
    /// error.
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

/// What every kind declares alike.
#[derive(Debug)]
pub struct OpSpec {
    /// snake_case: the adapter method.
    pub name: &'static str,
    /// The kind and its own options.
    pub kind: &'static dyn Kind,
    /// Call parameters, in order of first use.
    pub params: &'static [ParamSpec],
    /// The routes it mounts below the entity; empty when disabled.
    pub routes: &'static [RouteSpec],
    /// The operations that it stands for, each with one of its routes; empty when it is one itself.
    pub parts: &'static [&'static OpSpec],
    /// Its part of the route policy, merged over `routes.defaults`.
    pub policy: PolicyDesc,
    /// Why data scope does not hold for it; the tenant does.
    pub unscoped: Option<&'static str>,
    /// The values of the context that it reads, those of the actor apart.
    pub context: &'static [ContextDesc],
    /// The doc comment.
    pub doc: &'static str,
    /// Where it is declared.
    pub at: SourceLine,
}

/// A call parameter.
#[derive(Debug, Clone, Copy)]
pub struct ParamSpec {
    /// camelCase name on the wire.
    pub name: &'static str,
    /// Position of the field whose type it has.
    pub field: usize,
    /// Whose field that is, when it is another entity's.
    pub entity: Option<&'static EntityDesc>,
    /// Where HTTP carries it.
    pub place: Place,
    /// Whether leaving it out is a problem.
    pub required: bool,
    /// Whether null is a value for it.
    pub nullable: bool,
    /// Whether it is a list of the field's type.
    pub list: bool,
    /// Whether it is one element of the field, which is a list of strings.
    pub element: bool,
    /// What a call that leaves it out means: a literal or the call's instant.
    pub default: Option<SourceSpec>,
}

impl ParamSpec {
    /// The field whose type it has; `own` is the entity of the operation.
    pub fn field_of(&self, own: &EntityDesc) -> &'static FieldDesc {
        &self.entity.map_or(own.fields, |entity| entity.fields)[self.field]
    }

    /// Whether its conditions are dropped when a call leaves it out.
    #[doc(hidden)]
    pub fn may_miss(&self) -> bool {
        !self.required && self.default.is_none()
    }
}

/// What an operation works on, as far as a permission is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// One record that is there, which the call names.
    Record,
    /// One record, which is new.
    New,
    /// One record that the call names, new or there.
    Either,
    /// All records that match.
    Records,
    /// None that its entity's policy could speak of: the code of the user, or records of other
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
            // A function may change any records; a permission can only check the one it names.
            (Records::OfPath, _) if has_id() => Subject::Record,
            (Records::One | Records::OfPath | Records::Foreign, _) => Subject::Foreign,
        }
    }

    /// Gives parameters that a call leaves out their declared values. Once per call, before
    /// anything looks at them.
    #[doc(hidden)]
    pub fn complete(&self, now: impl Fn() -> crate::Timestamp, args: &mut [Option<crate::Value>]) {
        for (arg, param) in args.iter_mut().zip(self.params) {
            if let (None, Some(default)) = (&arg, &param.default) {
                *arg = match default {
                    SourceSpec::Literal(value) => Some(value()),
                    SourceSpec::Now => Some(crate::Value::Date(now())),
                    // No declaration can name another one.
                    SourceSpec::Param(_) | SourceSpec::Ctx(_) => None,
                };
            }
        }
    }
}

/// Where HTTP carries a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The record's `:id` segment.
    Id,
    /// A segment of the path form; the query in the query form (lookup, exists).
    Segment,
    /// The query string.
    Query,
    /// A top-level member of the body.
    Body,
    /// The whole body.
    Whole(Whole),
}

/// What a whole body holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whole {
    /// One item of the parameter's field.
    Item,
    /// Members of one item.
    Patch,
    /// A list of items.
    Items,
}

/// What a list of assignments writes to a field.
pub(super) fn written(list: &'static [AssignSpec], field: usize) -> Option<&'static SourceSpec> {
    list.iter()
        .find(|assign| assign.field == field)
        .map(|assign| &assign.value)
}

/// A field written by an operation.
#[derive(Debug, Clone, Copy)]
pub struct AssignSpec {
    /// Position of the field.
    pub field: usize,
    /// The value. A parameter that may be left out leaves the field unchanged.
    pub value: SourceSpec,
}

/// What an operation answers.
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
