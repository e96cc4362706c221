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
            let _ = writeln!(out, "  it names the stores {}", gap.named.join(", "));
        }
        let mut last = "";
        for missing in &gap.missing {
            if missing.capability != last {
                let _ = writeln!(out, "  missing `{}`", missing.capability);
                last = missing.capability;
            }
            let _ = writeln!(out, "    required by {}", missing.required_by);
        }
        if !gap.missing.is_empty() {
            let _ = writeln!(out, "  help: use memory or sqlite");
        }
    }
    out
}
