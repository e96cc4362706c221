//! `include`: what a read shows beside its records, two relations deep.

use std::sync::Arc;

use super::endpoint::Policy;
use super::foreign::{self, Around, Asking, RelatedPolicy, Shows};
use super::query::{self, Pair};
use crate::entity::{EntityDesc, Link, Relation, ScopeFrom};
use crate::resource::{BoxFuture, Include, Includes, Table, field_of};
use crate::store::Projection;
use crate::{Error, Problem, Result};

/// Most paths in one request.
pub(crate) const MAX_PATHS: usize = 8;
/// Most relations in one path.
pub(crate) const MAX_DEPTH: usize = 2;

/// The name of the parameter.
pub(crate) const NAME: &str = "include";

/// The relations that a route can show with its records; made once.
#[derive(Default)]
pub(super) struct Level {
    relations: Box<[Planned]>,
    /// Whether some of them, or of theirs, are not for everybody.
    closed: bool,
}

/// A relation, with all that can be known before a request asks for it.
struct Planned {
    relation: &'static Relation,
    table: Arc<Table>,
    projection: Arc<Projection>,
    policy: RelatedPolicy,
    inner: Level,
}

/// The relations that a request names, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted(Vec<(usize, Wanted)>);

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

/// The route that an entity shows a relation's records by.
pub(crate) fn shows(relation: &Relation) -> Shows {
    if let Link::BelongsTo { .. } = relation.link {
        Shows::One
    } else {
        Shows::Many
    }
}

/// The policy that guards what a relation shows.
pub(crate) fn policy(relation: &Relation) -> Policy {
    foreign::policy((relation.target)(), shows(relation))
}

impl Level {
    /// The relations of an entity, so many deep.
    ///
    /// # Errors
    /// The text of what is wrong with one of them.
    pub(super) fn new(
        around: &Around<'_>,
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
                    "{name} goes by `{key}`, which `{}` lacks",
                    other.desc.name
                ));
            }
            // Below a second parent nobody could say where a page of many goes on.
            if let Link::HasMany { key, .. } = relation.link
                && other.desc.scope.iter().any(|scope| {
                    matches!(scope.from, ScopeFrom::Path(_))
                        && other.desc.fields[scope.field].name != key
                })
            {
                let (target, parents) =
                    (other.desc.name, other.desc.parent_path.unwrap_or_default());
                return Err(format!(
                    "{name} leads to `{target}`, which lives below `{parents}`: its pages could not go on"
                ));
            }
            let policy = RelatedPolicy::new(around, &other, shows(relation), &name)?;
            let projection = policy.projection(&other, &name)?;
            Ok(Planned {
                relation,
                inner: Self::new(around, &other, depth - 1)?,
                table: other,
                projection,
                policy,
            })
        };
        let relations: Box<[Planned]> = table
            .desc
            .relations
            .iter()
            .map(planned)
            .collect::<std::result::Result<_, String>>()?;
        let seen = |table: &Table| super::context::seen_by(table.desc).next().is_some();
        let closed = relations
            .iter()
            .any(|planned| planned.policy.varies() || seen(&planned.table) || planned.inner.closed);
        Ok(Self { relations, closed })
    }

    /// Whether there is nothing to include.
    pub(super) fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// Whether some of them are not for everybody.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn position(&self, wire: &str) -> Option<(usize, &Planned)> {
        self.relations
            .iter()
            .enumerate()
            .find(|(_, planned)| planned.relation.wire == wire)
    }

    /// Whether every path names relations that there are, as deep as paths may go. Empty ones are
    /// no matter of names.
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

    /// Reads the parameter, whose names are known; problems are pushed.
    pub(super) fn read(&self, pair: &Pair<'_>, problems: &mut Vec<Problem>) -> Wanted {
        let mut wanted = Wanted::default();
        let Some(text) = query::text(pair, problems) else {
            return wanted;
        };
        let mut problem =
            |code, message: String| problems.push(Problem::new(pair.path(), code, message));
        let mut seen: Vec<&str> = Vec::new();
        for path in text.split(',') {
            if path.is_empty() {
                problem("empty", "names relations, separated by commas".to_owned());
                return wanted;
            }
            if path.split('.').count() > MAX_DEPTH {
                problem(
                    "too_many",
                    format!("a path names at most {MAX_DEPTH} relations"),
                );
                return wanted;
            }
            if seen.contains(&path) {
                problem("duplicate", "must name each path once".to_owned());
                return wanted;
            }
            if seen.len() == MAX_PATHS {
                problem("too_many", format!("at most {MAX_PATHS} paths"));
                return wanted;
            }
            seen.push(path);
            wanted.add(self, path);
        }
        wanted
    }

    /// What a request wants, if the caller may see it.
    ///
    /// # Errors
    /// 401 or 403, for the whole request.
    pub(super) fn allowed<'a>(
        &'a self,
        wanted: &'a Wanted,
        asking: Asking<'a>,
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
                    cx: planned.policy.admit(asking).await?,
                    inner: planned.inner.allowed(inner, asking).await?,
                });
            }
            Ok(Includes { relations })
        })
    }
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path whose names are known, and what leads to it.
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
