//! The stores of this build and their capabilities, checked before start-up.

use linchpin_vocabulary::store;
pub use linchpin_vocabulary::store::BUILT_IN as STORES;

/// Whether a store of this build has a capability of the shared table. A name that is not in the
/// table is never granted, so an operation with a misspelt capability does not start.
///
/// No store grants `custom.factory`, because the program must provide the factory.
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
            assert!(
                !granted(store, "custom.factory")
                    && !granted(store, "atomic.everything")
                    && !granted(store, "operation.bump")
            );
        }
        assert!(!granted("redis", "atomic.increment"));
    }
}
