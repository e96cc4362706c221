//! Packages: what `package!` builds.

use crate::entity::EntityDesc;
use crate::operation::OpSpec;

/// A list of entities with all that can be done with them; written by [`package!`](crate::package).
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Unique within an app.
    pub name: &'static str,
    /// The version of the crate that declares it.
    pub version: &'static str,
    /// Prefix of every route; `/` by default.
    pub mount: &'static str,
    /// The entities.
    pub entities: &'static [EntityEntry],
    /// Names of packages and plugins that must be there.
    pub dependencies: &'static [&'static str],
    /// What runs around every route, outside of the routes' own middleware, the first outermost.
    pub middleware: &'static [crate::policy::MiddlewareDesc],
    /// Runs at start-up once adapters exist, before anything is served.
    pub after_adapters: Option<crate::Attachment>,
}

/// An entity in a package.
#[derive(Debug, Clone, Copy)]
pub struct EntityEntry {
    /// The entity.
    pub desc: &'static EntityDesc,
    /// Its operations, in the order listed.
    pub operations: &'static [&'static OpSpec],
    /// Extra routes below the entity's path.
    pub routes: &'static [crate::operation::ExtraRouteSpec],
}

impl EntityEntry {
    /// Its operations as they are mounted: those that stand for several give way to them.
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
