//! What each store can do: the one table behind [`Store::supports`](super::Store::supports) and the gate before start-up.

/// Capabilities that are a matter of the store's atomicity, and whether memory, sqlite and postgres have them.
const GRANTED: [&str; 15] = [
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
/// Kinds that only read.
const READS: [&str; 5] = ["lookup", "exists", "aggregate", "search", "derive"];
/// The stores of this build.
#[cfg(not(feature = "postgres"))]
pub const STORES: [&str; 2] = ["memory", "sqlite"];
/// The stores of this build.
#[cfg(feature = "postgres")]
pub const STORES: [&str; 3] = ["memory", "sqlite", "postgres"];

/// Whether a store of this version grants a capability of the matrix (contract 8.1). A name that the matrix lacks is granted by
/// none: a kind that asks for it cannot start unnoticed.
///
/// `custom.factory` is no matter of the store: a program has to bring the factory.
pub fn granted(store: &str, capability: &str) -> bool {
    let known = match capability.split_once('.') {
        Some(("core", _)) => true,
        Some(("operation", kind)) => READS.contains(&kind),
        _ => GRANTED.contains(&capability),
    };
    known && STORES.contains(&store)
}

#[cfg(test)]
mod tests {
    use super::granted;

    #[test]
    fn every_store_grants_what_the_matrix_says() {
        for store in super::STORES {
            for capability in super::GRANTED.into_iter().chain(["core.crud", "operation.lookup", "operation.derive"]) {
                assert!(granted(store, capability), "{store} {capability}");
            }
            assert!(!granted(store, "custom.factory") && !granted(store, "atomic.everything") && !granted(store, "operation.bump"));
        }
        assert!(!granted("redis", "atomic.increment"));
    }
}
