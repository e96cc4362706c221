//! Start-up errors that programs can distinguish.

use std::fmt::Write;

use linchpin_vocabulary::store::FACTORY;

/// The reason why an app does not start, for programs: [`Error::startup`](crate::Error::startup).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupError {
    /// Entities cannot run on their configured store.
    Capabilities(Vec<EntityGap>),
}

impl std::fmt::Display for StartupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Capabilities(gaps) = self;
        f.write_str(&text(gaps))
    }
}

impl std::error::Error for StartupError {}

/// An entity that cannot run on its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityGap {
    /// The name of the entity.
    pub entity: &'static str,
    /// The store that the configuration selects for it.
    pub store: String,
    /// The stores that the entity names, if any. They may not include the configured one.
    pub named: &'static [&'static str],
    /// The capabilities that it needs and the store lacks.
    pub missing: Vec<Gap>,
    /// The stores of this build that would satisfy all gaps.
    pub fits: Vec<&'static str>,
}

/// A missing capability, and a declaration that requires it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The name of the capability.
    pub capability: &'static str,
    /// The declaration that requires it, with its source location.
    pub required_by: String,
    /// The reason why the store lacks it.
    pub reason: String,
}

/// Returns the start-up error for all entities.
fn text(gaps: &[EntityGap]) -> String {
    let mut out = String::new();
    let (count, pronoun) = if gaps.len() == 1 {
        ("1 entity".to_owned(), "its")
    } else {
        (format!("{} entities", gaps.len()), "their")
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{count} cannot run on {pronoun} configured store");
    for gap in gaps {
        let _ = write!(out, "\nentity `{}` on store `{}`:\n", gap.entity, gap.store);
        if !gap.named.is_empty() && !gap.named.contains(&gap.store.as_str()) {
            let _ = writeln!(
                out,
                "  the entity runs only on the stores it names: {}",
                gap.named.join(", ")
            );
        }
        let mut last = "";
        for missing in &gap.missing {
            if missing.capability != last {
                let _ = match missing.capability {
                    // A custom operation runs only on the stores for which it has functions. No
                    // other store can replace a missing function.
                    FACTORY => writeln!(out, "  no function for {} (`{FACTORY}`)", gap.store),
                    capability => writeln!(out, "  missing `{capability}`"),
                };
                last = missing.capability;
            }
            let _ = writeln!(out, "    required by {}", missing.required_by);
            let _ = writeln!(out, "    reason: {}", missing.reason);
        }
        let (fits, store) = (one_of(&gap.fits), &gap.store);
        // Writing the functions is enough if nothing else is missing.
        let lacks_only_functions = !gap.missing.is_empty()
            && gap
                .missing
                .iter()
                .all(|missing| missing.capability == FACTORY);
        let _ = match (lacks_only_functions, fits.is_empty()) {
            (true, true) => writeln!(
                out,
                "  help: write a function, and name it in the operation: `handler({store} = ..)`"
            ),
            (true, false) => writeln!(
                out,
                "  help: write a function, and name it in the operation: `handler({store} = ..)`; or use {fits}"
            ),
            (false, false) => writeln!(out, "  help: use {fits}"),
            (false, true) => Ok(()),
        };
    }
    out
}

/// `a, b or c`.
#[doc(hidden)]
pub fn one_of<S: AsRef<str>>(names: &[S]) -> String {
    let (last, rest) = names
        .split_last()
        .map_or(("", &[][..]), |(last, rest)| (last.as_ref(), rest));
    let rest: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
    if rest.is_empty() {
        last.to_owned()
    } else {
        format!("{} or {last}", rest.join(", "))
    }
}
