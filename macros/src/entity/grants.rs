//! Checks the stores in `stores(..)` and their capabilities. The macros and the runtime share the
//! table of stores in `linchpin_vocabulary::store`.

use linchpin_vocabulary::store::{self, StoreFacts};
use syn::Ident;

use super::EntityModel;
use crate::diagnostics::{Diagnostics, nearest};

/// The capability of a store to change several records in one step.
pub(crate) const TRANSACTION: &str = "transaction";

impl EntityModel {
    /// Returns the stores of `stores(..)` that do not grant a capability. Stores that are not in
    /// the shared table are checked at start-up.
    pub(crate) fn lacking(&self, capability: &str) -> impl Iterator<Item = &'static StoreFacts> {
        let known = self
            .stores
            .iter()
            .filter_map(|store| store::named(&store.to_string()));
        known.filter(move |store| store::is_known(capability) && !store.grants(capability))
    }
}

/// Returns the help for an entity that names a store without a capability: ``take `redis` out of
/// `stores(..)`: memory, sqlite, postgres and mongo provide it``. `verb` is the end of this text:
/// `provide it`.
pub(crate) fn without(lacking: &StoreFacts, capability: &str, verb: &str) -> String {
    let names: Vec<&str> = store::granting(capability)
        .map(|store| store.name)
        .collect();
    let take = format!("take `{}` out of `stores(..)`", lacking.name);
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("{take}: {} and {last} {verb}", rest.join(", "))
        }
        _ => take,
    }
}

/// Checks the names in `stores(..)`, and the capabilities that the options of the entity need.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    let known = || store::STORES.iter().map(|store| store.name);
    let mut seen: Vec<&Ident> = Vec::new();
    for ident in &model.stores {
        let name = ident.to_string();
        if seen.contains(&ident) {
            d.error(ident, format!("store `{name}` repeated"))
                .help("name each store once");
        } else if store::named(&name).is_none() && nearest(&name, known()).is_some() {
            d.error(ident, format!("unknown store `{name}`"))
                .suggest(&name, known());
        } else {
            seen.push(ident);
        }
    }
    for lacking in model.lacking("unique.reservation") {
        for unique in &model.uniques {
            let text = format!(
                "a unique needs `unique.reservation`, which `{}` does not provide",
                lacking.name
            );
            d.error(&unique.key, text)
                .help(without(lacking, "unique.reservation", "provide it"));
        }
    }
    for lacking in model.lacking("atomic.version") {
        if let Some(version) = &model.version {
            let text = format!(
                "`version` needs `atomic.version`, which `{}` does not provide",
                lacking.name
            );
            d.error(&version.key, text)
                .help(without(lacking, "atomic.version", "provide it"));
        }
    }
}
