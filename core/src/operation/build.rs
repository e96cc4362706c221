//! Const methods that expansions call to write descriptors of operations, one per option. The
//! methods of a kind are in the file of the kind.

use super::{Kind, OpSpec, ParamSpec, Place, RouteSpec};
use crate::ContextDesc;
use crate::entity::{EntityDesc, SourceLine};
use crate::filter::SourceSpec;
use crate::policy::PolicyDesc;

#[doc(hidden)]
impl OpSpec {
    /// An operation without parameters and routes; method calls add both. It records the source
    /// location of the call.
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

    /// Sets the call parameters.
    #[must_use]
    pub const fn params(self, params: &'static [ParamSpec]) -> Self {
        Self { params, ..self }
    }

    /// Sets the routes.
    #[must_use]
    pub const fn routes(self, routes: &'static [RouteSpec]) -> Self {
        Self { routes, ..self }
    }

    /// Sets the operations that it consists of.
    #[must_use]
    pub const fn parts(self, parts: &'static [&'static OpSpec]) -> Self {
        Self { parts, ..self }
    }

    /// Sets the policy.
    #[must_use]
    pub const fn policy(self, policy: PolicyDesc) -> Self {
        Self { policy, ..self }
    }

    /// Sets the reason why the data scope does not apply.
    #[must_use]
    pub const fn unscoped(self, reason: &'static str) -> Self {
        Self {
            unscoped: Some(reason),
            ..self
        }
    }

    /// Sets the context values that it reads.
    #[must_use]
    pub const fn context(self, context: &'static [ContextDesc]) -> Self {
        Self { context, ..self }
    }

    /// Sets the doc comment.
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

    /// The parameter has the type of a field of another entity.
    #[must_use]
    pub const fn of(self, entity: &'static EntityDesc) -> Self {
        Self {
            entity: Some(entity),
            ..self
        }
    }

    /// The parameter is optional.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self {
            required: false,
            ..self
        }
    }

    /// Sets the value of calls that omit the parameter.
    #[must_use]
    pub const fn or(self, default: SourceSpec) -> Self {
        Self {
            required: false,
            default: Some(default),
            ..self
        }
    }

    /// Null is a valid value.
    #[must_use]
    pub const fn nullable(self) -> Self {
        Self {
            nullable: true,
            ..self
        }
    }

    /// The parameter is one element of the field.
    #[must_use]
    pub const fn element(self) -> Self {
        Self {
            element: true,
            ..self
        }
    }

    /// The parameter is a list.
    #[must_use]
    pub const fn list(self) -> Self {
        Self { list: true, ..self }
    }
}
