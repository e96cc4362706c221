//! The capability gate: what entities need against what their store can do, before any connection is opened.

use std::fmt::Write;

use crate::entity::{EntityDesc, SourceLine};
use crate::operation::OpSpec;

/// An entity that cannot run on its store.
#[derive(Debug)]
pub(crate) struct EntityGap {
    entity: &'static str,
    store: String,
    named: &'static [&'static str],
    missing: Vec<Gap>,
}

/// A missing capability with one that requires it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gap {
    capability: &'static str,
    required_by: String,
}

/// Everything `entity` needs that the store lacks.
pub(crate) fn gaps(
    desc: &'static EntityDesc,
    operations: &[&'static OpSpec],
    store: &str,
    supports: impl Fn(&str) -> bool,
) -> Option<EntityGap> {
    let mut missing = Vec::new();
    let mut need = |capability: &'static str, required_by: String| {
        if !supports(capability) {
            missing.push(Gap { capability, required_by });
        }
    };
    for unique in desc.uniques {
        let fields: Vec<&str> = unique.fields.iter().map(|f| desc.fields[*f].name).collect();
        need("unique.reservation", format!("unique ({}) at {}", fields.join(", "), at(desc.at)));
    }
    if desc.version.is_some() {
        need("atomic.version", format!("version at {}", at(desc.at)));
    }
    for spec in operations {
        need(spec.kind.capability(), format!("operation `{}` ({}) at {}", spec.name, spec.kind.name(), at(spec.at)));
    }
    missing.sort();
    let named_elsewhere = !desc.stores.is_empty() && !desc.stores.contains(&store);
    (named_elsewhere || !missing.is_empty()).then(|| EntityGap { entity: desc.name, store: store.to_owned(), named: desc.stores, missing })
}

fn at(line: SourceLine) -> String {
    format!("{}:{}", line.file, line.line)
}

/// The stores of this version. Both grant everything but handlers that a program has to supply.
const OFFERED: [&str; 2] = ["memory", "sqlite"];

impl EntityGap {
    /// Whether a store would satisfy all gaps of the entity.
    fn fits(&self, store: &str) -> bool {
        let named = self.named.is_empty() || self.named.contains(&store);
        named && store != self.store && self.missing.iter().all(|gap| gap.capability != "custom.factory")
    }
}

fn reason(capability: &str, store: &str) -> String {
    match (store, capability) {
        ("redis", "unique.reservation") => "key-value wiring cannot reserve a value atomically".to_owned(),
        ("redis", _) => "standard key-value wiring reads, changes and writes in separate steps".to_owned(),
        (_, "custom.factory") => format!("no {store} factory is registered"),
        _ => format!("the store `{store}` does not grant it"),
    }
}

/// The start-up error, for all entities at once.
pub(crate) fn text(gaps: &mut [EntityGap]) -> String {
    gaps.sort_by_key(|g| g.entity);
    let mut out = String::new();
    let (count, verb) = if gaps.len() == 1 { ("1 entity".to_owned(), "its") } else { (format!("{} entities", gaps.len()), "their") };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{count} cannot run on {verb} configured store");
    for gap in gaps.iter() {
        let _ = write!(out, "\nentity `{}` on store `{}`:\n", gap.entity, gap.store);
        if !gap.named.is_empty() && !gap.named.contains(&gap.store.as_str()) {
            let _ = writeln!(out, "  the entity runs only on the stores it names: {}", gap.named.join(", "));
        }
        let mut last = "";
        for missing in &gap.missing {
            if missing.capability != last {
                let _ = writeln!(out, "  missing `{}`", missing.capability);
                last = missing.capability;
            }
            let _ = writeln!(out, "    required by {}", missing.required_by);
            let _ = writeln!(out, "    reason: {}", reason(missing.capability, &gap.store));
        }
        let fits: Vec<&str> = OFFERED.into_iter().filter(|store| gap.fits(store)).collect();
        if !fits.is_empty() {
            let _ = writeln!(out, "  help: use {}", fits.join(" or "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{FieldDesc, Kind, UniqueDesc};

    const FIELDS: &[FieldDesc] =
        &[FieldDesc::new("id", "id", "id", Kind::String, false), FieldDesc::new("name", "name", "name", Kind::String, false)];
    const BASE: EntityDesc = EntityDesc {
        uniques: &[UniqueDesc { fields: &[1], global: false }],
        at: SourceLine { file: "src/counter.rs", line: 6 },
        ..EntityDesc::new("Counter", "counters", "counters", FIELDS)
    };
    static COUNTER: EntityDesc = BASE;
    static ELSEWHERE: EntityDesc = EntityDesc { name: "Audit", stores: &["postgres"], uniques: &[], ..BASE };

    #[test]
    fn the_text_names_what_is_missing_why_and_where_to_go() {
        let gaps = |desc| gaps(desc, &[], "redis", |_| false);
        let mut all: Vec<_> = [&COUNTER, &ELSEWHERE].into_iter().filter_map(gaps).collect();
        assert_eq!(
            text(&mut all),
            "2 entities cannot run on their configured store\n\
             \n\
             entity `Audit` on store `redis`:\n  \
               the entity runs only on the stores it names: postgres\n\
             \n\
             entity `Counter` on store `redis`:\n  \
               missing `unique.reservation`\n    \
                 required by unique (name) at src/counter.rs:6\n    \
                 reason: key-value wiring cannot reserve a value atomically\n  \
               help: use memory or sqlite\n"
        );
        assert!(super::gaps(&COUNTER, &[], "memory", |_| true).is_none());
    }
}
