//! Packages: the output of `package!`, and its assertions about entities and routes.

mod audited;
mod duplicates;
mod scoped;

use crate::entity::EntityDesc;
use crate::operation::OpSpec;

pub use audited::{assert_action, assert_audited, assert_operation_audited, assert_route_audited};
#[doc(hidden)]
pub use duplicates::sentence::Sentence;
pub use duplicates::{
    assert_apart, assert_distinct_routes, assert_unique, beginnings, find_duplicates,
};
pub use scoped::assert_scoped;

/// A list of entities with their operations and routes; written by the macro `package!`.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Unique within an app.
    pub name: &'static str,
    /// The version of the crate that declares it.
    pub version: &'static str,
    /// The path prefix of every route; `/` by default.
    pub mount: &'static str,
    /// The entities.
    pub entities: &'static [EntityEntry],
    /// The names of required packages and plugins.
    pub dependencies: &'static [&'static str],
    /// The middleware of every route. It runs before the routes' own middleware; the first is the
    /// outermost.
    pub middleware: &'static [crate::policy::MiddlewareDesc],
    /// Runs at start-up after the adapters exist and before the app serves requests.
    pub after_adapters: Option<crate::Attachment>,
}

/// An entity in a package.
#[derive(Debug, Clone, Copy)]
pub struct EntityEntry {
    /// The entity.
    pub desc: &'static EntityDesc,
    /// The operations of the entity, in the listed order.
    pub operations: &'static [&'static OpSpec],
    /// Extra routes below the entity's path.
    pub routes: &'static [crate::operation::ExtraRouteSpec],
}

impl EntityEntry {
    /// Returns the operations that have routes: a collection is replaced by its methods.
    pub fn mounted(&self) -> impl Iterator<Item = &'static OpSpec> {
        self.operations
            .iter()
            .flat_map(|spec| {
                if spec.parts.is_empty() {
                    std::slice::from_ref(spec)
                } else {
                    spec.parts
                }
            })
            .copied()
    }
}
