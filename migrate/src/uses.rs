//! The fields that an app uses to find, order or compute records.
//!
//! A field whose type changes is in two columns for a time. During this time, SQL cannot read the
//! new value in every record. So two binaries cannot serve together if the new one compares the
//! field in SQL.

use linchpin_core::entity::{EntityDesc, Flags, Link};
use linchpin_core::filter::FilterSpec;
use linchpin_core::operation::{OpSpec, Options};
use linchpin_core::policy::PolicyDesc;

/// An operation of an entity.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredOperation {
    /// The entity.
    pub entity: &'static EntityDesc,
    /// The operation.
    pub spec: &'static OpSpec,
}

/// Returns the reason why the values of a field must be in one column; `None` if there is no
/// reason.
pub(crate) fn reason(
    entities: &[&'static EntityDesc],
    operations: &[DeclaredOperation],
    storage_name: &str,
    field: &str,
) -> Option<String> {
    let desc = entities.iter().find(|d| d.storage_name == storage_name)?;
    let at = desc.fields.iter().position(|f| f.name == field)?;
    if let Some(what) = reason_in_entity(desc, at) {
        return Some(what.to_owned());
    }
    if entities
        .iter()
        .any(|other| is_used_by_other(other, desc, field))
    {
        return Some("a relation or a counter of another entity uses it".to_owned());
    }
    let operation = operations
        .iter()
        .find(|one| is_used_by_operation(one.spec, one.entity, (desc, at)))?;
    Some(format!("operation `{}` uses it", operation.spec.name))
}

/// The reason why the declaration of the entity itself needs the field in one column.
fn reason_in_entity(desc: &EntityDesc, at: usize) -> Option<&'static str> {
    let field = &desc.fields[at];
    let has = |flags: Flags| field.flags.has(flags);
    let in_policy = |policy: &PolicyDesc| {
        policy.permission.is_some_and(|permission| {
            let named = [permission.owner_field, permission.resource, permission.rank];
            named.contains(&Some(field.name))
        })
    };
    if has(Flags::LISTED) || desc.sort.iter().any(|key| key.field == at) {
        return Some("lists filter or sort by it");
    }
    if has(Flags::PRIMARY.or(Flags::VERSION).or(Flags::ON_UPDATE)) {
        return Some("the framework writes it");
    }
    let visible = desc.visible.iter().any(|filter| mentions(filter, at));
    let actions = desc.actions.iter().any(|one| mentions(&one.filter, at));
    let gates = desc.gates.iter().any(|gate| gate.field == at);
    let scopes = desc.scope.iter().any(|scope| scope.field == at);
    if visible || actions || gates || scopes || desc.tenant.is_some_and(|one| one.field == at) {
        return Some("it restricts who can read a record");
    }
    let expires = desc.ttl.is_some_and(|one| one.field == at);
    if expires || desc.soft_delete.is_some_and(|one| one.field() == at) {
        return Some("it decides whether a record exists");
    }
    if desc.routes.iter().chain([&desc.defaults]).any(in_policy) {
        return Some("a permission uses it");
    }
    if desc
        .search
        .is_some_and(|search| search.fields.iter().any(|(field, _)| *field == at))
    {
        return Some("the search index contains it");
    }
    let belongs = desc
        .relations
        .iter()
        .any(|relation| matches!(relation.link, Link::BelongsTo { key, .. } if key == at));
    let counts = desc.summaries.iter();
    let counted = counts
        .clone()
        .any(|one| one.by == at || mentions(&one.when, at));
    (belongs || counted).then_some("a relation or a counter uses it")
}

/// Whether another entity uses the field in a relation or as its counter.
fn is_used_by_other(other: &EntityDesc, desc: &EntityDesc, field: &str) -> bool {
    let many = other.relations.iter().any(|relation| match relation.link {
        Link::HasMany { key, .. } => key == field && is(desc, (relation.target)()),
        Link::BelongsTo { .. } => false,
    });
    let counts = other.summaries.iter();
    many || counts
        .clone()
        .any(|one| one.field == field && is(desc, (one.target)()))
}

fn is(one: &EntityDesc, other: &EntityDesc) -> bool {
    one.storage_name == other.storage_name
}

/// Whether an operation names a field. `own` is the entity of the operation.
fn is_used_by_operation(spec: &OpSpec, own: &EntityDesc, (desc, at): (&EntityDesc, usize)) -> bool {
    let of_own = is(own, desc);
    let in_params = spec
        .params
        .iter()
        .any(|param| param.field == at && is(desc, param.entity.unwrap_or(own)));
    if in_params {
        return true;
    }
    let kind = spec.kind;
    let in_common = || {
        kind.filter().is_some_and(|filter| mentions(filter, at))
            || kind.matches().iter().any(|one| one.field == at)
            || kind.fixed().iter().any(|(field, ..)| *field == at)
            || kind.writes(at).is_some()
            || kind
                .sorts()
                .iter()
                .flat_map(|sort| sort.keys)
                .any(|key| key.field == at)
    };
    let in_filter = |filter: &Option<FilterSpec>| filter.as_ref().is_some_and(|f| mentions(f, at));
    let in_options = || match kind.options() {
        Options::Aggregate(of) => {
            of.group.is_some_and(|group| group.field == at)
                || of
                    .compute
                    .iter()
                    .any(|one| one.field == at || in_filter(&one.filter))
        }
        Options::ArrayWrite(of) => of.field == at,
        Options::Batch(of) => of.sort.is_some_and(|key| key.field == at),
        Options::Collection(of) => of.field == at,
        Options::Consume(of) => of.expiry == Some(at),
        Options::Exists(of) => of.fields.iter().chain(of.check).any(|one| one.field == at),
        Options::Increment(of) => of.field == at,
        Options::Lookup(of) => {
            of.sort.is_some_and(|key| key.field == at)
                || of.fields.iter().any(|one| one.field == at)
        }
        Options::Search(of) => of.fields.contains(&at),
        Options::Transition(of) => of.field == at,
        _ => false,
    };
    if of_own && (in_common() || in_options()) {
        return true;
    }
    match kind.options() {
        // These operations read other entities, and their filters use fields of those entities.
        Options::ComputedAggregate(of) => {
            let source = is(of.source, desc)
                && (mentions(&of.filter, at)
                    || of
                        .compute
                        .iter()
                        .any(|one| one.field == at || in_filter(&one.filter)));
            source || (of.target.is_some_and(|target| is(target, desc)) && of.field == at)
        }
        Options::Derive(of) => of.sources.iter().any(|part| {
            let through = part.through.is_some_and(|through| {
                (is(through.entity, desc) && through.select == Some(at))
                    || (is(part.entity, desc) && through.on == at)
            });
            through
                || (is(part.entity, desc)
                    && (in_filter(&part.filter)
                        || part.select == Some(at)
                        || in_filter(&of.post_filter)))
        }),
        _ => false,
    }
}

fn mentions(filter: &FilterSpec, at: usize) -> bool {
    match filter {
        FilterSpec::All(all) | FilterSpec::Any(all) => all.iter().any(|one| mentions(one, at)),
        FilterSpec::Cond(field, ..) => *field == at,
    }
}

#[cfg(test)]
mod tests {
    use linchpin_core::entity::{FieldDesc, Kind, SortDesc};
    use linchpin_core::filter::{Op, OperandSpec, SourceSpec};
    use linchpin_core::operation::{Lookup, NamedSort};

    use super::*;

    const fn field(name: &'static str) -> FieldDesc {
        FieldDesc::new(name, name, name, Kind::Integer, false)
    }

    static FIELDS: [FieldDesc; 6] = [
        FieldDesc {
            flags: Flags::PRIMARY,
            ..field("id")
        },
        FieldDesc {
            flags: Flags::FILTERABLE,
            ..field("rank")
        },
        field("hidden"),
        field("ordered"),
        field("named"),
        field("free"),
    ];
    static POST: EntityDesc = EntityDesc {
        visible: Some(FilterSpec::All(&[FilterSpec::Cond(
            2,
            Op::Eq,
            OperandSpec::One(SourceSpec::Now),
        )])),
        ..EntityDesc::new("Post", "posts", "posts", &FIELDS)
    };
    static OTHER: EntityDesc = EntityDesc::new("Other", "others", "others", &FIELDS);
    static SORTS: [NamedSort; 1] = [NamedSort::new(
        "best",
        &[SortDesc {
            field: 3,
            desc: false,
        }],
    )];
    static BEST: Lookup = Lookup {
        sorts: &SORTS,
        ..Lookup::new(&[])
    };
    static NAMED: Lookup = Lookup::new(&[]).filter(FilterSpec::Cond(
        4,
        Op::Eq,
        OperandSpec::One(SourceSpec::Now),
    ));
    static OPERATIONS: [OpSpec; 2] = [OpSpec::new("best", &BEST), OpSpec::new("named", &NAMED)];

    #[test]
    fn compared_fields_of_operations_are_found() {
        let operations: Vec<DeclaredOperation> = OPERATIONS
            .iter()
            .map(|spec| DeclaredOperation {
                entity: &POST,
                spec,
            })
            .collect();
        let why = |table: &str, field: &str| {
            let reason = reason(&[&POST, &OTHER], &operations, table, field);
            reason.unwrap_or_else(|| "free".to_owned())
        };
        assert_eq!(why("posts", "rank"), "lists filter or sort by it");
        assert_eq!(why("posts", "hidden"), "it restricts who can read a record");
        assert_eq!(why("posts", "ordered"), "operation `best` uses it");
        assert_eq!(why("posts", "named"), "operation `named` uses it");
        assert_eq!(why("posts", "free"), "free");
        assert_eq!(why("others", "named"), "free");
    }
}
