//! The capability check: compares the capabilities that entities need with the capabilities of the
//! store, before a connection is opened.

use linchpin_vocabulary::kind::Changes;
use linchpin_vocabulary::store::{self, FACTORY};

use crate::EntityEntry;
use crate::entity::{EntityDesc, Flags};
use crate::http::PolicyDesc;
use crate::operation::{Method, OpSpec};
use crate::resource::computed;
use crate::store::StoreKind;
use crate::{EntityGap, Error, Gap, Result, StartupError};

/// Refuses entities that cannot run on the store, and reports them together. `kinds` are the stores
/// of the app.
///
/// # Errors
/// A start-up error that lists every missing capability.
pub(crate) fn check<'a>(
    entries: impl Iterator<Item = &'a EntityEntry>,
    store: &str,
    supports: impl Fn(&str) -> bool,
    kinds: &[&StoreKind],
) -> Result<()> {
    let mut gaps: Vec<EntityGap> = entries
        .filter_map(|entry| gaps(entry, store, &supports, kinds))
        .collect();
    gaps.sort_by_key(|gap| gap.entity);
    if gaps.is_empty() {
        Ok(())
    } else {
        Err(Error::at_startup(StartupError::Capabilities(gaps)))
    }
}

/// All capabilities that `entity` needs and the store lacks.
fn gaps(
    entry: &EntityEntry,
    store: &str,
    supports: impl Fn(&str) -> bool,
    kinds: &[&StoreKind],
) -> Option<EntityGap> {
    let desc = entry.desc;
    let mut missing = Vec::new();
    let mut need = |capability: &'static str, required_by: String| {
        if !supports(capability) {
            missing.push(Gap {
                capability,
                required_by,
                reason: reason(capability, store),
            });
        }
    };
    for unique in desc.uniques {
        let fields: Vec<&str> = unique.fields.iter().map(|f| desc.fields[*f].name).collect();
        need(
            "unique.reservation",
            format!("unique ({}) at {}", fields.join(", "), desc.at),
        );
    }
    if desc.version.is_some() {
        need("atomic.version", format!("version at {}", desc.at));
    }
    for relation in desc
        .relations
        .iter()
        .filter(|relation| relation.enforced().is_some())
    {
        need(
            "transaction",
            format!("on_delete of relation `{}` at {}", relation.name, desc.at),
        );
    }
    for gate in desc.gates {
        let field = desc.fields.get(gate.field).map_or("", |field| field.name);
        need("transaction", format!("gate `{field}` at {}", desc.at));
    }
    for summary in desc.summaries {
        need(
            "transaction",
            format!(
                "counter of `{}.{}` at {}",
                (summary.target)().name,
                summary.field,
                desc.at
            ),
        );
    }
    for audited in audited(entry) {
        need("transaction", format!("`audit` of {audited}"));
    }
    for spec in entry.mounted().filter(|spec| computes_many(spec, desc)) {
        need(
            "transaction",
            format!(
                "computed fields that `{}` ({}) writes at {}",
                spec.name,
                spec.kind.name(),
                spec.at
            ),
        );
    }
    for spec in entry
        .mounted()
        .filter(|spec| !spec.kind.has_handler_for(store))
    {
        need(
            spec.kind.capability(),
            format!(
                "operation `{}` ({}) at {}",
                spec.name,
                spec.kind.name(),
                spec.at
            ),
        );
    }
    missing.sort();
    let named_elsewhere = !desc.stores.is_empty() && !desc.stores.contains(&store);
    (named_elsewhere || !missing.is_empty()).then(|| {
        let fits = kinds
            .iter()
            .filter(|other| other.name != store && fits(entry, &missing, other))
            .map(|other| other.name)
            .collect();
        EntityGap {
            entity: desc.name,
            store: store.to_owned(),
            named: desc.stores,
            missing,
            fits,
        }
    })
}

/// The audited routes of an entity that change records, each with its source location. A change and
/// its audit entry are written in one transaction.
fn audited(entry: &EntityEntry) -> Vec<String> {
    let desc = entry.desc;
    let audits = |policy: &PolicyDesc| !policy.disabled && policy.or(desc.defaults).audit.is_some();
    let [create, _, _, update, delete] = &desc.routes;
    let mut routes = Vec::new();
    for (name, policy) in [("create", create), ("update", update), ("delete", delete)] {
        if audits(policy) {
            routes.push(format!("route `{name}` at {}", desc.at));
        }
    }
    for spec in entry.mounted() {
        if !spec.kind.reads() && audits(&spec.policy) {
            routes.push(format!("operation `{}` at {}", spec.name, spec.at));
        }
    }
    for route in entry.routes {
        if !matches!(route.route.method, Method::Get) && audits(&route.policy) {
            routes.push(format!("route `{}` at {}", route.name, route.at));
        }
    }
    routes
}

/// Whether an operation changes several records whose computed fields depend on the change. Such an
/// operation locks the records, writes their computed values and then makes its change, all in one
/// transaction.
fn computes_many(spec: &OpSpec, desc: &EntityDesc) -> bool {
    if !matches!(spec.kind.facts().changes, Changes::Many | Changes::Removed) {
        return false;
    }
    let mark = desc.soft_delete.map(|mark| mark.field());
    let removes = spec.kind.touches(desc).has(desc.primary);
    if removes && mark.is_none() {
        return false;
    }
    let written = |field: usize| {
        let flags = desc.fields[field].flags;
        flags.has(Flags::ON_UPDATE.or(Flags::VERSION))
            || desc.ttl.is_some_and(|ttl| ttl.field == field)
            || spec.kind.writes(field).is_some()
            || (removes && mark == Some(field))
    };
    !computed::affected(desc, written).is_empty()
}

/// Whether a store would satisfy all gaps of an entity.
fn fits(entry: &EntityEntry, missing: &[Gap], store: &StoreKind) -> bool {
    let named = entry.desc.stores.is_empty() || entry.desc.stores.contains(&store.name);
    // Each operation that runs a function of the app must have a handler for the store.
    let brought = || {
        entry
            .mounted()
            .filter(|spec| spec.kind.capability() == FACTORY)
            .all(|spec| spec.kind.has_handler_for(store.name))
    };
    named
        && missing
            .iter()
            .all(|gap| store.grants(gap.capability) || (gap.capability == FACTORY && brought()))
}

fn reason(capability: &str, store: &str) -> String {
    if capability == FACTORY {
        return format!("its `handler(..)` names no function for {store}");
    }
    let known = store::named(store).and_then(|facts| facts.reason(capability));
    known.map_or_else(
        || format!("the store `{store}` does not grant it"),
        str::to_owned,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{EntityDesc, FieldDesc, Kind, SourceLine, UniqueDesc};

    const FIELDS: &[FieldDesc] = &[
        FieldDesc::new("id", "id", "id", Kind::String, false),
        FieldDesc::new("name", "name", "name", Kind::String, false),
    ];
    const BASE: EntityDesc = EntityDesc {
        uniques: &[UniqueDesc {
            fields: &[1],
            global: false,
        }],
        at: SourceLine {
            file: "src/counter.rs",
            line: 6,
        },
        ..EntityDesc::new("Counter", "counters", "counters", FIELDS)
    };
    static COUNTER: EntityDesc = BASE;
    static ELSEWHERE: EntityDesc = EntityDesc {
        name: "Audit",
        stores: &["postgres"],
        uniques: &[],
        ..BASE
    };

    fn entry(desc: &'static EntityDesc) -> EntityEntry {
        EntityEntry {
            desc,
            operations: &[],
            routes: &[],
        }
    }

    #[test]
    fn the_message_names_missing_capabilities_and_stores_that_have_them() {
        let entries = [entry(&COUNTER), entry(&ELSEWHERE)];
        let kinds: &[&StoreKind] = &[
            &crate::store::memory::KIND,
            #[cfg(feature = "sqlite")]
            &crate::store::sqlite::KIND,
            #[cfg(feature = "postgres")]
            &crate::store::postgres::KIND,
        ];
        let error = check(entries.iter(), "redis", |_| false, kinds).unwrap_err();
        // The stores of this build.
        let server = cfg!(feature = "postgres");
        let (audit, stores) = if server {
            ("\n  help: use postgres", "memory, sqlite or postgres")
        } else {
            ("", "memory or sqlite")
        };
        let expected = format!(
            "2 entities cannot run on their configured store\n\
             \n\
             entity `Audit` on store `redis`:\n  \
               the entity runs only on the stores it names: postgres{audit}\n\
             \n\
             entity `Counter` on store `redis`:\n  \
               missing `unique.reservation`\n    \
                 required by unique (name) at src/counter.rs:6\n    \
                 reason: key-value wiring cannot reserve a value atomically\n  \
               help: use {stores}\n"
        );
        assert_eq!(error.message(), expected);
        let Some(StartupError::Capabilities(gaps)) = error.startup() else {
            panic!("{error:?}")
        };
        assert_eq!(
            (gaps.len(), gaps[1].missing[0].capability),
            (2, "unique.reservation")
        );
        let memory = kinds[0];
        let supports = |capability: &str| memory.grants(capability);
        assert!(check(entries[..1].iter(), memory.name, supports, kinds).is_ok());
    }
}
