//! An operation as declared: static data.

use std::marker::PhantomData;

use crate::ContextDesc;
use crate::entity::{Entity, EntityDesc, FieldDesc, FieldSet, Paging, SortDesc, SourceLine};
use crate::filter::{FilterSpec, SourceSpec};
use crate::http::PolicyDesc;

/// An operation on `E`: the type of the consts under `#[operation]`.
pub struct Operation<E> {
    spec: &'static OpSpec,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Operation<E> {
    /// Wraps what the macro wrote.
    #[doc(hidden)]
    pub const fn new(spec: &'static OpSpec) -> Self {
        Self { spec, entity: PhantomData }
    }

    /// The declaration, as data.
    pub const fn spec(&self) -> &'static OpSpec {
        self.spec
    }
}

impl<E> Operation<E> {
    /// Stands in for a declaration that does not compile, so that its users do: one mistake, one error.
    #[doc(hidden)]
    pub const fn poisoned() -> Self {
        static POISONED: OpSpec = OpSpec::new("", &super::Exists::new(&[]));
        Self { spec: &POISONED, entity: PhantomData }
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
    #[cfg(feature = "server")]
    pub(crate) fn may_miss(&self) -> bool {
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
    /// None that its entity's policy could speak of: the code of the user, or records of other entities.
    Foreign,
}

impl OpSpec {
    /// What it works on.
    pub fn subject(&self) -> Subject {
        let names_one = !self.kind.matches().is_empty() || self.params.iter().any(|p| p.place == Place::Id);
        match self.kind.subject() {
            Subject::Record if !names_one => Subject::Foreign,
            // What a function does to how many records, nobody here knows.
            _ if self.kind.runs_code() && !self.params.iter().any(|p| p.place == Place::Id) => Subject::Foreign,
            _ if self.kind.runs_code() => Subject::Record,
            subject => subject,
        }
    }

    /// Gives parameters that a call leaves out their declared values. Once per call, before anything looks at them.
    #[cfg(feature = "server")]
    pub(crate) fn complete(&self, cx: &crate::Cx, args: &mut [Option<crate::Value>]) {
        for (arg, param) in args.iter_mut().zip(self.params) {
            if let (None, Some(default)) = (&arg, &param.default) {
                *arg = match default {
                    SourceSpec::Literal(value) => Some(value()),
                    SourceSpec::Now => Some(crate::Value::Date(cx.now())),
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

/// A route an operation or entity mounts, relative to the entity's path.
#[derive(Debug, Clone, Copy)]
pub struct RouteSpec {
    /// The method.
    pub method: Method,
    /// Segments below the entity's path.
    pub segments: &'static [Seg],
}

/// A segment of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seg {
    /// Static text, percent-decoded.
    Lit(&'static str),
    /// A parameter; its name does not count when paths are compared.
    Param(&'static str),
}

/// A method of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Changes something.
    Post,
    /// Puts something in place of what is there.
    Put,
    /// Changes parts of a record.
    Patch,
    /// Takes something away.
    Delete,
}

impl Method {
    /// `GET` and so on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What a list of assignments writes to a field.
pub(super) fn written(list: &'static [AssignSpec], field: usize) -> Option<&'static SourceSpec> {
    list.iter().find(|assign| assign.field == field).map(|assign| &assign.value)
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

/// One kind of operation: its declared options, its plan and its executor.
///
/// The struct holds the options as static data; `plan` is called once per mounted entity.
pub trait Kind: std::fmt::Debug + Send + Sync + 'static {
    /// `transition` and so on.
    fn name(&self) -> &'static str;

    /// What the store must be able to do: a name of the capability matrix.
    fn capability(&self) -> &'static str;

    /// Whether it brings what it needs of a store by itself, so that the store need not have the capability.
    #[cfg(feature = "server")]
    fn brings(&self, store: &str) -> bool {
        let _ = store;
        false
    }

    /// What a successful call answers, for OpenAPI and the HTTP layer.
    fn returns(&self) -> Answer;

    /// Whether it changes the one record that its path names, so that `If-Match` can guard it.
    fn by_id(&self) -> bool {
        matches!(self.returns(), Answer::Record | Answer::Boolean)
    }

    /// What it works on, as far as a permission is concerned.
    fn subject(&self) -> Subject {
        if self.by_id() { Subject::Record } else { Subject::Records }
    }

    /// Whether it runs a function of the user's, so that a permission has to be judged before.
    fn runs_code(&self) -> bool {
        self.name() == "custom"
    }

    /// What the records it works on must equal, parameters that are left out apart; empty when it goes by the id alone.
    fn matches(&self) -> &'static [AssignSpec] {
        &[]
    }

    /// What it writes to a field.
    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        let _ = field;
        None
    }

    /// Which fields of its own entity's records it may change; all of them where it makes or removes records, and where code of the
    /// user decides. What every change writes (on-update dates, version, expiry) is not among them.
    fn touches(&self, on: &EntityDesc) -> FieldSet {
        (0..on.fields.len()).filter(|field| self.writes(*field).is_some()).collect()
    }

    /// Whether it only reads: then an anonymous caller may see records without a tenant, where the entity says so.
    fn reads(&self) -> bool {
        false
    }

    /// Whether it works on deleted records, and on no others.
    fn deleted(&self) -> bool {
        false
    }

    /// What a call can be refused with beyond what every route can: its own refusals, for OpenAPI.
    fn errors(&self) -> &'static [crate::Code] {
        &[]
    }

    /// The most statements that a call sends, repetitions apart: a write that another call overtakes is sent again.
    /// `None` where code of the user decides.
    fn statements(&self, on: &EntityDesc) -> Option<usize> {
        let _ = on;
        // When nothing was changed, a second one asks why.
        Some(if self.by_id() && !self.reads() { 2 } else { 1 })
    }

    /// What it lays down for a list of items, for all that write the list.
    fn bounds(&self) -> Option<super::ItemBounds> {
        None
    }

    /// How its pages are asked for, if it answers any.
    fn paging(&self) -> Paging {
        Paging::Limit
    }

    /// The orders that a call chooses from by name; the first holds without a name.
    fn sorts(&self) -> &'static [NamedSort] {
        &[]
    }

    /// Whether the search provider of its entity answers it, where there is one.
    fn uses_provider(&self) -> bool {
        false
    }

    /// What it is made of, for a kind that merges other entities' records.
    fn derived(&self) -> Option<&super::Derive> {
        None
    }

    /// Whose records it answers, when they are not those of its own entity.
    fn answers(&self) -> Option<&'static EntityDesc> {
        None
    }

    /// The form of its answer, for a kind whose answer is declared by a type.
    fn shape(&self) -> Option<super::Shape> {
        None
    }

    /// Which move it is, for a kind that moves a field between states.
    fn transition(&self) -> Option<&super::Transition> {
        None
    }

    /// What is computed, for a kind that answers numbers.
    fn aggregate(&self) -> Option<&super::Aggregate> {
        None
    }

    /// The declared filter, for introspection.
    fn filter(&self) -> Option<&FilterSpec> {
        None
    }

    /// Builds everything that does not depend on a call.
    ///
    /// # Errors
    /// When the store refuses a statement of it.
    #[cfg(feature = "server")]
    fn plan(&'static self, spec: &'static OpSpec, table: &crate::resource::Table) -> crate::Result<Box<dyn crate::resource::Executor>>;
}

/// An order that calls choose by its name.
#[derive(Debug)]
pub struct NamedSort {
    /// As calls write it.
    pub name: &'static str,
    /// Its fields; the primary key breaks ties in the direction of the last.
    pub keys: &'static [SortDesc],
}

#[doc(hidden)]
impl NamedSort {
    /// An order of this name.
    pub const fn new(name: &'static str, keys: &'static [SortDesc]) -> Self {
        Self { name, keys }
    }

    /// What is told to a call that names another.
    #[cfg(feature = "server")]
    pub(crate) fn one_of(sorts: &[Self]) -> String {
        format!("must be one of {}", sorts.iter().map(|sort| sort.name).collect::<Vec<_>>().join(", "))
    }
}

/// The shape of a successful answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The record; never null.
    Record,
    /// The record or null.
    RecordOrNull,
    /// A page of records.
    Page,
    /// A bare array of records, at most `limit` of them.
    List,
    /// A bare array of records.
    Records,
    /// A value of a declared type.
    Value,
    /// An array of what other entities hold.
    Derived,
    /// An object of numbers.
    Numbers,
    /// An array of such objects, one per group.
    Groups,
    /// The bare value `true` or `false`.
    Boolean,
    /// `{ "exists": boolean }`; HEAD answers 200 or 404.
    Exists,
    /// A bare number.
    Count,
    /// The items of a list.
    Items {
        /// Position of the list's field.
        field: usize,
    },
    /// One item of a list.
    Item {
        /// Position of the list's field.
        field: usize,
        /// Whether it is new: 201.
        created: bool,
    },
    /// 204.
    Nothing,
    /// The record, 201 when it is new; within `{ "entity", "created" }` when wrapped.
    Upserted {
        /// Whether the answer is an object around the record.
        wrapped: bool,
    },
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Code(Answer);

    impl Kind for Code {
        fn name(&self) -> &'static str {
            "custom"
        }

        fn capability(&self) -> &'static str {
            "custom.factory"
        }

        fn returns(&self) -> Answer {
            self.0
        }

        fn plan(&'static self, _: &'static OpSpec, _: &crate::resource::Table) -> crate::Result<Box<dyn crate::resource::Executor>> {
            Err(crate::Error::not_found())
        }
    }

    /// A permission over a function is never judged by what the function might do with records.
    #[test]
    fn functions_work_on_the_record_of_their_path_or_on_none() {
        static ID: [ParamSpec; 1] = [crate::__private::in_id("id", 0)];
        static KINDS: [Code; 4] = [Code(Answer::Nothing), Code(Answer::Record), Code(Answer::RecordOrNull), Code(Answer::Page)];
        for kind in &KINDS {
            assert_eq!(OpSpec::new("f", kind).subject(), Subject::Foreign, "{kind:?}");
            assert_eq!(OpSpec::new("f", kind).params(&ID).subject(), Subject::Record, "{kind:?}");
        }
    }
}
