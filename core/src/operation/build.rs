//! How expansions write descriptors of operations: const methods, one per option. Those of a kind
//! stand with the kind.

use super::{Kind, OpSpec, ParamSpec, Place, RouteSpec};
use crate::ContextDesc;
use crate::entity::{EntityDesc, SourceLine};
use crate::filter::SourceSpec;
use crate::policy::PolicyDesc;

#[doc(hidden)]
impl OpSpec {
    /// An operation without parameters and routes, declared where this is called; both follow as
    /// method calls.
    #[track_caller]
    pub const fn new(name: &'static str, kind: &'static dyn Kind) -> Self {
        let (policy, at) = (PolicyDesc::INHERIT, SourceLine::here());
        Self {
            name,
            kind,
            params: &[],
            routes: &[],
            parts: &[],
            policy,
            unscoped: None,
            context: &[],
            doc: "",
            at,
        }
    }

    /// With call parameters.
    #[must_use]
    pub const fn params(self, params: &'static [ParamSpec]) -> Self {
        Self { params, ..self }
    }

    /// With routes.
    #[must_use]
    pub const fn routes(self, routes: &'static [RouteSpec]) -> Self {
        Self { routes, ..self }
    }

    /// With operations that it stands for.
    #[must_use]
    pub const fn parts(self, parts: &'static [&'static OpSpec]) -> Self {
        Self { parts, ..self }
    }

    /// With a policy of its own.
    #[must_use]
    pub const fn policy(self, policy: PolicyDesc) -> Self {
        Self { policy, ..self }
    }

    /// Free of data scope, for a reason.
    #[must_use]
    pub const fn unscoped(self, reason: &'static str) -> Self {
        Self {
            unscoped: Some(reason),
            ..self
        }
    }

    /// With values of the context that it reads.
    #[must_use]
    pub const fn context(self, context: &'static [ContextDesc]) -> Self {
        Self { context, ..self }
    }

    /// With a doc comment.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }
}

impl ParamSpec {
    /// A required parameter.
    #[doc(hidden)]
    pub const fn new(name: &'static str, field: usize, place: Place) -> Self {
        Self {
            name,
            field,
            entity: None,
            place,
            required: true,
            nullable: false,
            list: false,
            element: false,
            default: None,
        }
    }

    /// The same, of the type of another entity's field.
    #[must_use]
    pub const fn of(self, entity: &'static EntityDesc) -> Self {
        Self {
            entity: Some(entity),
            ..self
        }
    }

    /// The same, when it may be left out.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self {
            required: false,
            ..self
        }
    }

    /// The same, when a call that leaves it out means this.
    #[must_use]
    pub const fn or(self, default: SourceSpec) -> Self {
        Self {
            required: false,
            default: Some(default),
            ..self
        }
    }

    /// The same, when null is a value for it.
    #[must_use]
    pub const fn nullable(self) -> Self {
        Self {
            nullable: true,
            ..self
        }
    }

    /// The same, as one element of the field.
    #[must_use]
    pub const fn element(self) -> Self {
        Self {
            element: true,
            ..self
        }
    }

    /// The same, as a list.
    #[must_use]
    pub const fn list(self) -> Self {
        Self { list: true, ..self }
    }
}
