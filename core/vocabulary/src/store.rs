//! The capabilities that declarations need, and the stores that grant them.
//!
//! A store outside this table provides the same facts as data when the app starts.
//!
//! ```
//! use linchpin_vocabulary::store;
//!
//! let redis = store::named("redis").expect("a store of the table");
//! assert!(redis.grants("operation.lookup") && !redis.grants("transaction"));
//! assert_eq!(store::granting("transaction").count(), 4);
//! assert!(store::named("toy").is_none());
//! ```

/// A store of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFacts {
    /// The name in declarations and in the configuration: `sqlite`.
    pub name: &'static str,
    /// Whether this version contains the store. Later versions add the others.
    pub available: bool,
    /// The capabilities that it grants: names of [`CAPABILITIES`].
    pub grants: &'static [&'static str],
    /// The reasons for missing capabilities and missing unique constraints; `None` if nothing is
    /// missing.
    pub limits: Option<Limits>,
}

/// The reasons for missing capabilities of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The reason why it does not support unique constraints.
    pub unique: &'static str,
    /// The reason why it lacks the other capabilities.
    pub other: &'static str,
}

/// Records in the memory of one process.
pub const MEMORY: StoreFacts = StoreFacts {
    name: "memory",
    available: true,
    grants: &CAPABILITIES,
    limits: None,
};
/// A database in a file.
pub const SQLITE: StoreFacts = StoreFacts {
    name: "sqlite",
    available: true,
    grants: &CAPABILITIES,
    limits: None,
};
/// A database server.
pub const POSTGRES: StoreFacts = StoreFacts {
    name: "postgres",
    available: true,
    grants: &CAPABILITIES,
    limits: None,
};
/// A document database.
pub const MONGO: StoreFacts = StoreFacts {
    name: "mongo",
    available: false,
    grants: &CAPABILITIES,
    limits: None,
};
/// Plain keys and values.
pub const REDIS: StoreFacts = StoreFacts {
    name: "redis",
    available: false,
    grants: &READS,
    limits: Some(Limits {
        unique: "key-value wiring cannot reserve a value atomically",
        other: "standard key-value wiring reads, changes and writes in separate steps",
    }),
};

/// Every store of the table, in the order in which messages list them.
pub const STORES: [&StoreFacts; 5] = [&MEMORY, &SQLITE, &POSTGRES, &MONGO, &REDIS];

/// The requirement of a custom operation: a function of the app for the store. No store grants it.
pub const FACTORY: &str = "custom.factory";

/// Every capability, in the order in which documents list them.
pub const CAPABILITIES: [&str; 22] = [
    "core.crud",
    "core.list",
    "operation.lookup",
    "operation.exists",
    "operation.aggregate",
    "operation.search",
    "operation.derive",
    "collection.list",
    "atomic.collection",
    "unique.reservation",
    "atomic.version",
    "atomic.transition",
    "atomic.field-update",
    "atomic.array",
    "atomic.increment",
    "atomic.upsert",
    "atomic.consume",
    "batch.write",
    "batch.atomic",
    "computed.write",
    "computed.atomic",
    "transaction",
];

/// The capabilities that do not change several values in one step.
pub const READS: [&str; 8] = [
    "core.crud",
    "core.list",
    "operation.lookup",
    "operation.exists",
    "operation.aggregate",
    "operation.search",
    "operation.derive",
    "collection.list",
];

impl StoreFacts {
    /// Whether the store grants a capability. No store grants a capability that is not in the
    /// table.
    #[must_use]
    pub fn grants(&self, capability: &str) -> bool {
        self.grants.contains(&capability)
    }

    /// Returns the reason why the store does not grant a capability, if the table has one.
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
    STORES
        .into_iter()
        .filter(move |store| store.grants(capability))
}

/// Whether the table has this capability.
#[must_use]
pub fn is_known(capability: &str) -> bool {
    CAPABILITIES.contains(&capability)
}

/// The store of this name, if the table has it.
#[must_use]
pub fn named(name: &str) -> Option<&'static StoreFacts> {
    STORES.into_iter().find(|store| store.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_name_once() {
        for (at, capability) in CAPABILITIES.iter().enumerate() {
            assert!(
                !CAPABILITIES[..at].contains(capability),
                "{capability} twice"
            );
        }
        for (at, store) in STORES.iter().enumerate() {
            assert!(
                STORES[..at].iter().all(|other| other.name != store.name),
                "{} twice",
                store.name
            );
            assert!(
                store.grants.iter().all(|capability| is_known(capability)),
                "{}",
                store.name
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
        let needed = CAPABILITIES
            .into_iter()
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
