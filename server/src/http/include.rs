//! `include`: related records in the response of a read, up to two relations deep.

use std::sync::Arc;

use super::endpoint::Policy;
use super::query::{self, Pair};
use super::related::{self, RelatedPolicy, RelatedRequest, RelatedRoute, RouteContext};
use crate::entity::{EntityDesc, Link, Relation, ScopeFrom};
use crate::resource::{BoxFuture, Include, Includes, Table, field_of};
use crate::store::Projection;
use crate::{Error, Problem, Result};

/// The maximum number of paths in one request.
pub(crate) const MAX_PATHS: usize = 8;
/// The maximum number of relations in one path.
pub(crate) const MAX_DEPTH: usize = 2;

/// The name of the parameter.
pub(crate) const NAME: &str = "include";

/// The relations whose records a route can add to its response; computed once at start-up.
#[derive(Default)]
pub(super) struct Level {
    relations: Box<[PlannedRelation]>,
    /// Whether the policy of a relation, or the visibility of its records, depends on the caller;
    /// this includes the relations below it.
    closed: bool,
}

/// A relation with the data that is prepared before any request.
struct PlannedRelation {
    relation: &'static Relation,
    table: Arc<Table>,
    projection: Arc<Projection>,
    policy: RelatedPolicy,
    inner: Level,
}

/// The relations that a request includes, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedRelations(Vec<(usize, RequestedRelations)>);

/// The paths of relations that begin at an entity, in the order of declaration: `author`,
/// `comments`, `comments.author`.
pub(crate) fn paths(entity: &EntityDesc) -> Vec<String> {
    let mut out = Vec::new();
    for relation in entity.relations {
        out.push(relation.wire.to_owned());
        out.extend(
            (relation.target)()
                .relations
                .iter()
                .map(|inner| format!("{}.{}", relation.wire, inner.wire)),
        );
    }
    out
}

/// The route of the target entity whose policy applies to the records of a relation.
pub(crate) fn target_route(relation: &Relation) -> RelatedRoute {
    if let Link::BelongsTo { .. } = relation.link {
        RelatedRoute::Get
    } else {
        RelatedRoute::List
    }
}

/// The policy for the records of a relation.
pub(crate) fn policy(relation: &Relation) -> Policy {
    related::policy((relation.target)(), target_route(relation))
}

impl Level {
    /// The relations of an entity, up to a depth.
    ///
    /// # Errors
    /// The reason why a relation cannot be included.
    pub(super) fn new(
        route_context: &RouteContext<'_>,
        table: &Table,
        depth: usize,
    ) -> std::result::Result<Self, String> {
        if depth == 0 {
            return Ok(Self::default());
        }
        let planned = |relation: &'static Relation| {
            let name = format!("relation `{}` of `{}`", relation.name, table.desc.name);
            let other = table.sibling((relation.target)()).map_err(|_| {
                let target = (relation.target)().name;
                format!("{name} leads to `{target}`, which is in no package of this app")
            })?;
            if let Link::HasMany { key, .. } = relation.link
                && field_of(&other, key).is_none()
            {
                return Err(format!(
                    "{name} uses the field `{key}`, which `{}` lacks",
                    other.desc.name
                ));
            }
            // With a second parent parameter, the cursor of a nested list would have no valid URL.
            if let Link::HasMany { key, .. } = relation.link
                && other.desc.scope.iter().any(|scope| {
                    matches!(scope.from, ScopeFrom::Path(_))
                        && other.desc.fields[scope.field].name != key
                })
            {
                let (target, parents) =
                    (other.desc.name, other.desc.parent_path.unwrap_or_default());
                return Err(format!(
                    "{name} leads to `{target}`, whose path is below `{parents}`: a client could not request further pages of the included list"
                ));
            }
            let policy = RelatedPolicy::new(route_context, &other, target_route(relation), &name)?;
            let projection = policy.projection(&other, &name)?;
            Ok(PlannedRelation {
                relation,
                inner: Self::new(route_context, &other, depth - 1)?,
                table: other,
                projection,
                policy,
            })
        };
        let relations: Box<[PlannedRelation]> = table
            .desc
            .relations
            .iter()
            .map(planned)
            .collect::<std::result::Result<_, String>>()?;
        let has_conditions = |table: &Table| {
            super::context::needed_by_conditions(table.desc)
                .next()
                .is_some()
        };
        let closed = relations.iter().any(|planned| {
            planned.policy.varies() || has_conditions(&planned.table) || planned.inner.closed
        });
        Ok(Self { relations, closed })
    }

    /// Whether there are no relations.
    pub(super) fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// Whether the related records depend on the caller, so that the response must not be cached.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn position(&self, wire: &str) -> Option<(usize, &PlannedRelation)> {
        self.relations
            .iter()
            .enumerate()
            .find(|(_, planned)| planned.relation.wire == wire)
    }

    /// Whether every relation that the paths name exists, up to the maximum depth. Empty paths are
    /// accepted here; [`Self::read`] refuses them.
    pub(super) fn knows(&self, pair: &Pair<'_>) -> bool {
        let known = |path: &str| {
            let mut level = Some(self);
            path.is_empty()
                || path.split('.').take(MAX_DEPTH).all(|name| {
                    match level.take().and_then(|level| level.position(name)) {
                        Some((_, planned)) => {
                            level = Some(&planned.inner);
                            true
                        }
                        None => false,
                    }
                })
        };
        pair.value
            .as_deref()
            .is_none_or(|text| text.split(',').all(known))
    }

    /// Reads the parameter, whose names have been checked; problems are added to the list.
    pub(super) fn read(&self, pair: &Pair<'_>, problems: &mut Vec<Problem>) -> RequestedRelations {
        let mut wanted = RequestedRelations::default();
        let Some(text) = query::text(pair, problems) else {
            return wanted;
        };
        let mut problem =
            |code, message: String| problems.push(Problem::new(pair.path(), code, message));
        let mut seen_paths: Vec<&str> = Vec::new();
        for path in text.split(',') {
            if path.is_empty() {
                problem(
                    "empty",
                    "must name relations, separated by commas".to_owned(),
                );
                return wanted;
            }
            if path.split('.').count() > MAX_DEPTH {
                problem(
                    "too_many",
                    format!("a path names at most {MAX_DEPTH} relations"),
                );
                return wanted;
            }
            if seen_paths.contains(&path) {
                problem("duplicate", "must name each path once".to_owned());
                return wanted;
            }
            if seen_paths.len() == MAX_PATHS {
                problem("too_many", format!("at most {MAX_PATHS} paths"));
                return wanted;
            }
            seen_paths.push(path);
            wanted.add(self, path);
        }
        wanted
    }

    /// The requested relations, if the caller may read their records.
    ///
    /// # Errors
    /// 401 or 403 for the whole request.
    pub(super) fn allowed<'a>(
        &'a self,
        wanted: &'a RequestedRelations,
        related_request: RelatedRequest<'a>,
    ) -> BoxFuture<'a, Result<Includes>> {
        Box::pin(async move {
            let mut relations = Vec::with_capacity(wanted.0.len());
            for (at, inner) in &wanted.0 {
                let planned = self
                    .relations
                    .get(*at)
                    .ok_or_else(|| Error::internal("a relation that is not there"))?;
                relations.push(Include {
                    relation: planned.relation,
                    table: Arc::clone(&planned.table),
                    projection: Arc::clone(&planned.projection),
                    cx: planned.policy.admit(related_request).await?,
                    inner: planned.inner.allowed(inner, related_request).await?,
                });
            }
            Ok(Includes { relations })
        })
    }
}

impl RequestedRelations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path of known names, with all relations on the path.
    fn add(&mut self, level: &Level, path: &str) {
        let (first, rest) = path
            .split_once('.')
            .map_or((path, None), |(first, rest)| (first, Some(rest)));
        let Some((at, planned)) = level.position(first) else {
            return;
        };
        let place = self
            .0
            .iter()
            .position(|(of, _)| *of == at)
            .unwrap_or_else(|| {
                self.0.push((at, Self::default()));
                self.0.len() - 1
            });
        if let Some(rest) = rest {
            self.0[place].1.add(&planned.inner, rest);
        }
    }
}
