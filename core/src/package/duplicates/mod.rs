//! Duplicate routes: one comparison for the const assertions of `package!` and for start-up.
//!
//! Two routes are duplicates if their methods and normalised segments are equal. Duplicate slashes
//! collapse, static text is compared percent-decoded, and the names of parameters and wildcards do
//! not count. HEAD counts as GET. A static segment and a parameter at the same position are no
//! duplicates; the static segment takes precedence.

mod compare;
pub mod sentence;

use self::compare::{Base, beginning, may_meet, same, same_below, same_text, trim_slashes};
use self::sentence::{Mounted, Sentence, stop};
use super::{EntityEntry, Package};
use crate::entity::{EntityDesc, SourceLine};
use crate::operation::{ExtraRouteSpec, OpSpec, RouteSpec};

/// The five generated routes, in the order of [`EntityDesc::routes`].
const CRUD: [&str; 5] = ["create", "list", "get", "update", "delete"];

/// A declaration with routes below an entity's path.
#[derive(Clone, Copy)]
enum Declared {
    Crud(usize),
    Operation(&'static OpSpec),
    Extra(&'static ExtraRouteSpec),
}

impl Declared {
    const fn at(entry: &EntityEntry, index: usize) -> Option<Self> {
        if index < CRUD.len() {
            return Some(Self::Crud(index));
        }
        let index = index - CRUD.len();
        if index < entry.operations.len() {
            return Some(Self::Operation(entry.operations[index]));
        }
        if index - entry.operations.len() < entry.routes.len() {
            return Some(Self::Extra(&entry.routes[index - entry.operations.len()]));
        }
        None
    }

    /// Returns its route at a position; `None` after the last route, or if it is disabled.
    const fn route(self, entity: &EntityDesc, index: usize) -> Option<RouteSpec> {
        match self {
            Self::Crud(crud) if index == 0 && !entity.routes[crud].disabled => {
                Some(entity.mounts[crud])
            }
            Self::Operation(spec) if index < spec.routes.len() && !spec.policy.disabled => {
                Some(spec.routes[index])
            }
            Self::Extra(spec) if index == 0 && !spec.policy.disabled => Some(spec.route),
            _ => None,
        }
    }

    /// Returns the kind and the name for messages: `generated ` and `get`.
    const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Crud(crud) => ("generated ", CRUD[crud]),
            Self::Operation(spec) => ("operation ", spec.name),
            Self::Extra(spec) => ("extra route ", spec.name),
        }
    }

    const fn line(self, entity: &EntityDesc) -> SourceLine {
        match self {
            Self::Crud(_) => entity.at,
            Self::Operation(spec) => spec.at,
            Self::Extra(spec) => spec.at,
        }
    }
}

// -- at compile time
// --------------------------------------------------------------------------

/// Stops the build if declaration `index` of `entry` (0–4 CRUD, then operations, then extra routes)
/// has the same route as an earlier declaration of the entity.
pub const fn assert_unique(entry: &EntityEntry, index: usize) {
    let Some(second) = Declared::at(entry, index) else {
        return;
    };
    let mut r = 0;
    while let Some(route) = second.route(entry.desc, r) {
        let mut i = 0;
        while i < index
            && let Some(first) = Declared::at(entry, i)
        {
            let mut s = 0;
            while let Some(other) = first.route(entry.desc, s) {
                if same_below(&other, &route) {
                    let (entity, base) = (entry.desc.name, Base::of(entry.desc));
                    let first = Mounted {
                        entity,
                        declared: first,
                        base,
                        route: &other,
                    };
                    stop(
                        &first,
                        &Mounted {
                            entity,
                            declared: second,
                            base,
                            route: &route,
                        },
                    );
                }
                s += 1;
            }
            i += 1;
        }
        r += 1;
    }
}

/// Returns the first pair of declarations of two entities with a common route, and the spelling of
/// the route in each.
const fn clash(
    a: (Base<'_>, &EntityEntry),
    b: (Base<'_>, &EntityEntry),
) -> Option<((RouteSpec, Declared), (RouteSpec, Declared))> {
    let mut i = 0;
    while let Some(first) = Declared::at(a.1, i) {
        let mut r = 0;
        while let Some(route) = first.route(a.1.desc, r) {
            let mut j = 0;
            while let Some(second) = Declared::at(b.1, j) {
                let mut s = 0;
                while let Some(other) = second.route(b.1.desc, s) {
                    if same(a.0, &route, b.0, &other) {
                        return Some(((route, first), (other, second)));
                    }
                    s += 1;
                }
                j += 1;
            }
            r += 1;
        }
        i += 1;
    }
    None
}

const fn mounted<'a>(entry: &'a EntityEntry, one: &'a (RouteSpec, Declared)) -> Mounted<'a> {
    Mounted {
        entity: entry.desc.name,
        declared: one.1,
        base: Base::of(entry.desc),
        route: &one.0,
    }
}

/// Returns one number per entity that shows quickly which entities of a package cannot have a
/// common route. A const comparison of all pairs of routes would cost the compiler milliseconds per
/// entity.
pub const fn beginnings<const N: usize>(entities: &[EntityEntry]) -> [u64; N] {
    let mut all = [0; N];
    let mut i = 0;
    while i < N {
        all[i] = beginning(Base::of(entities[i].desc));
        i += 1;
    }
    all
}

/// Stops the build if entity `index` of a package has a route in common with an earlier one.
pub const fn assert_apart(entities: &[EntityEntry], beginnings: &[u64], index: usize) {
    let second = &entities[index];
    let mut i = 0;
    while i < index {
        let first = &entities[i];
        if may_meet(beginnings[i], beginnings[index])
            && let Some((one, other)) = clash(
                (Base::of(first.desc), first),
                (Base::of(second.desc), second),
            )
        {
            stop(&mounted(first, &one), &mounted(second, &other));
        }
        i += 1;
    }
}

/// Stops the build if two packages with the same mount have a route in common. For packages that an
/// application lists statically:
///
/// ```text
/// const _: () = linchpin::operation::assert_distinct_routes(&[&BLOG, &NEWS]);
/// ```
///
/// Start-up makes the same comparison for all packages, with their mounts.
pub const fn assert_distinct_routes(packages: &[&Package]) {
    let mut p = 0;
    while p < packages.len() {
        let mut q = 0;
        while q < p {
            if same_text(
                trim_slashes(packages[q].mount),
                trim_slashes(packages[p].mount),
            ) {
                assert_packages_apart(packages[q], packages[p]);
            }
            q += 1;
        }
        p += 1;
    }
}

const fn assert_packages_apart(a: &Package, b: &Package) {
    let mut i = 0;
    while i < a.entities.len() {
        let mut j = 0;
        while j < b.entities.len() {
            let (first, second) = (&a.entities[i], &b.entities[j]);
            if may_meet(
                beginning(Base::of(first.desc)),
                beginning(Base::of(second.desc)),
            ) && let Some((one, other)) = clash(
                (Base::of(first.desc), first),
                (Base::of(second.desc), second),
            ) {
                let (one, other) = (mounted(first, &one), mounted(second, &other));
                let mut text = Sentence::new();
                text.push("linchpin: duplicate route ");
                text.push_route(other.base, other.route);
                text.push(" in packages `");
                text.push(a.name);
                text.push("` and `");
                text.push(b.name);
                text.push("`: ");
                text.push_mounted(&one);
                text.push(" and ");
                text.push_mounted(&other);
                text.push("\nhelp: use another `mount` for one of the packages");
                text.stop();
            }
            j += 1;
        }
        i += 1;
    }
}

// -- at start-up
// --------------------------------------------------------------------------

/// Returns a sentence for each duplicate route of these packages, with both source locations.
pub fn find_duplicates(packages: &[&Package]) -> Vec<String> {
    let mut seen: Vec<((String, &str), RouteSpec, &EntityEntry, Declared)> = Vec::new();
    let mut found = Vec::new();
    for package in packages {
        for entry in package.entities {
            let base = format!(
                "{}/{}",
                package.mount,
                entry.desc.parent_path.unwrap_or_default()
            );
            let base = (base, entry.desc.path);
            for declared in (0..).map_while(|i| Declared::at(entry, i)) {
                for route in (0..).map_while(|r| declared.route(entry.desc, r)) {
                    let first = seen.iter().find(|(other, taken, ..)| {
                        same(
                            Base(&other.0, other.1),
                            taken,
                            Base(&base.0, base.1),
                            &route,
                        )
                    });
                    match first {
                        Some((at, taken, other, first)) => {
                            let second = placed(&base, &route, declared, entry);
                            found.push(sentence(&placed(at, taken, *first, other), &second));
                        }
                        None => seen.push((base.clone(), route, entry, declared)),
                    }
                }
            }
        }
    }
    found
}

/// Returns a route with its declaration and the source location of the declaration.
fn placed<'a>(
    base: &'a (String, &'a str),
    route: &'a RouteSpec,
    declared: Declared,
    entry: &'a EntityEntry,
) -> (Mounted<'a>, SourceLine) {
    (
        Mounted {
            entity: entry.desc.name,
            declared,
            base: Base(&base.0, base.1),
            route,
        },
        declared.line(entry.desc),
    )
}

/// Returns the error message for two declarations of the same route.
fn sentence(first: &(Mounted<'_>, SourceLine), second: &(Mounted<'_>, SourceLine)) -> String {
    let text = |write: &dyn Fn(&mut Sentence)| {
        let mut text = Sentence::new();
        write(&mut text);
        text.text()
    };
    let route = text(&|text| text.push_route(second.0.base, second.0.route));
    let [one, other] = [first, second]
        .map(|(mounted, at)| format!("{} ({at})", text(&|text| text.push_mounted(mounted))));
    let help = text(&|text| text.push_help(&first.0, &second.0)).replace("\nhelp: ", "; ");
    format!("duplicate route {route}: {one} and {other}{help}")
}

#[cfg(test)]
mod tests;
