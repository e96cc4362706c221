//! The capabilities that declarations need, and the stores that grant them.
//!
//! A store that is not in this table says by itself what it grants, when the app starts.
//!
//! ```
//! use linchpin_vocabulary::store;
//!
//! let redis = store::named("redis").expect("a store of the table");
//! assert!(redis.grants("operation.lookup") && !redis.grants("transaction"));
//! assert_eq!(store::granting("transaction").count(), 4);
//! assert!(store::named("toy").is_none());
//! ```

/// A store that Linchpin knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFacts {
    /// The name as a declaration and a configuration say it: `sqlite`.
    pub name: &'static str,
    /// Whether this version has it; the others come later.
    pub available: bool,
    /// Why it grants less than others, and why it reserves no unique values; `None` if it does.
    pub limits: Option<Limits>,
}

/// Reasons for what a store does not grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Why it cannot hold a unique.
    pub unique: &'static str,
    /// Why it lacks the other capabilities.
    pub other: &'static str,
}

/// The records of one process.
pub const MEMORY: StoreFacts = StoreFacts {
    name: "memory",
    available: true,
    limits: None,
};
/// A database in a file.
pub const SQLITE: StoreFacts = StoreFacts {
    name: "sqlite",
    available: true,
    limits: None,
};
/// A database server.
pub const POSTGRES: StoreFacts = StoreFacts {
    name: "postgres",
    available: true,
    limits: None,
};
/// A document database.
pub const MONGO: StoreFacts = StoreFacts {
    name: "mongo",
    available: false,
    limits: None,
};
/// Plain keys and values.
pub const REDIS: StoreFacts = StoreFacts {
    name: "redis",
    available: false,
    limits: Some(Limits {
        unique: "key-value wiring cannot reserve a value atomically",
        other: "standard key-value wiring reads, changes and writes in separate steps",
    }),
};

/// Every store of the table, in the order in which messages list them.
pub const STORES: [&StoreFacts; 5] = [&MEMORY, &SQLITE, &POSTGRES, &MONGO, &REDIS];

/// What a custom operation needs: a function of the app for the store. No store grants it.
pub const FACTORY: &str = "custom.factory";

const ALL: &[&StoreFacts] = &[&MEMORY, &SQLITE, &POSTGRES, &MONGO, &REDIS];
/// Stores that change several records in one step.
const ATOMIC: &[&StoreFacts] = &[&MEMORY, &SQLITE, &POSTGRES, &MONGO];

/// Every capability, and the stores that grant it.
pub const GRANTS: [(&str, &[&StoreFacts]); 22] = [
    ("core.crud", ALL),
    ("core.list", ALL),
    ("operation.lookup", ALL),
    ("operation.exists", ALL),
    ("operation.aggregate", ALL),
    ("operation.search", ALL),
    ("operation.derive", ALL),
    ("collection.list", ALL),
    ("atomic.collection", ATOMIC),
    ("unique.reservation", ATOMIC),
    ("atomic.version", ATOMIC),
    ("atomic.transition", ATOMIC),
    ("atomic.field-update", ATOMIC),
    ("atomic.array", ATOMIC),
    ("atomic.increment", ATOMIC),
    ("atomic.upsert", ATOMIC),
    ("atomic.consume", ATOMIC),
    ("batch.write", ATOMIC),
    ("batch.atomic", ATOMIC),
    ("computed.write", ATOMIC),
    ("computed.atomic", ATOMIC),
    ("transaction", ATOMIC),
];

impl StoreFacts {
    /// Whether it grants a capability. A capability that the table lacks is granted by no store.
    #[must_use]
    pub fn grants(&self, capability: &str) -> bool {
        granting(capability).any(|store| store == self)
    }

    /// Why it does not grant a capability, if the table says so.
    #[must_use]
    pub fn reason(&self, capability: &str) -> Option<&'static str> {
        let limits = self.limits?;
        Some(if capability == "unique.reservation" {
            limits.unique
        } else {
            limits.other
        })
    }
}

/// The stores that grant a capability.
pub fn granting(capability: &str) -> impl Iterator<Item = &'static StoreFacts> {
    let row = GRANTS.into_iter().find(|(name, _)| *name == capability);
    row.map_or(&[][..], |(_, stores)| stores).iter().copied()
}

/// Whether the table has this capability.
#[must_use]
pub fn is_known(capability: &str) -> bool {
    GRANTS.iter().any(|(name, _)| *name == capability)
}

/// The store of this name, if the table has it.
#[must_use]
pub fn named(name: &str) -> Option<&'static StoreFacts> {
    STORES.into_iter().find(|store| store.name == name)
}

/// The stores that this version brings.
pub const BUILT_IN: [&str; 3] = ["memory", "sqlite", "postgres"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_name_once() {
        for (at, (capability, stores)) in GRANTS.iter().enumerate() {
            assert!(
                GRANTS[..at].iter().all(|(other, _)| other != capability),
                "{capability} twice"
            );
            assert!(
                stores.iter().all(|store| named(store.name) == Some(*store)),
                "{capability}"
            );
        }
    }

    #[test]
    fn the_reference_lists_every_capability() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/stores.md"
        );
        let page = std::fs::read_to_string(page).expect("docs/reference/stores.md");
        let needed = GRANTS
            .into_iter()
            .map(|(capability, _)| capability)
            .filter(|name| !name.starts_with("core."));
        for capability in needed.chain([FACTORY]) {
            assert!(
                page.contains(&format!("`{capability}`")),
                "`{capability}` is missing in docs/reference/stores.md"
            );
        }
    }

    #[test]
    fn no_store_grants_what_the_table_lacks() {
        for capability in [FACTORY, "", "core", "atomic.", "operation.bump"] {
            assert!(
                !is_known(capability) && STORES.iter().all(|store| !store.grants(capability)),
                "{capability}"
            );
        }
    }
}
