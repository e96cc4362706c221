//! The stores of this build and what they grant: the gate before start-up asks it for stores of the shared table.

use linchpin_vocabulary::store;
pub use linchpin_vocabulary::store::BUILT_IN as STORES;

/// Whether a store of this build grants a capability of the shared table. No store grants a name that the table lacks: a kind
/// that asks for it cannot start unnoticed.
///
/// `custom.factory` is no matter of the store: a program has to bring the factory.
pub fn granted(store: &str, capability: &str) -> bool {
    STORES.contains(&store) && store::named(store).is_some_and(|facts| facts.grants(capability))
}

#[cfg(test)]
mod tests {
    use super::granted;

    #[test]
    fn every_store_grants_what_the_table_says() {
        for store in super::STORES {
            for (capability, _) in linchpin_vocabulary::store::GRANTS {
                assert!(granted(store, capability), "{store} {capability}");
            }
            assert!(!granted(store, "custom.factory") && !granted(store, "atomic.everything") && !granted(store, "operation.bump"));
        }
        assert!(!granted("redis", "atomic.increment"));
    }
}
