//! Capabilities of the stores that the entity names. For a store chosen by configuration, start-up checks the same table.

use syn::LitStr;

use super::args::Args;
use super::kinds::Kind;
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::entity::grants::{TRANSACTION, without};

/// Reports a kind that a named store cannot honour.
pub(super) fn check(kind: &dyn Kind, args: &Args, name: &str, entity: &EntityModel, at: &LitStr, d: &mut Diagnostics) {
    let capability = kind.capability(args);
    for store in entity.lacking(capability) {
        d.error(at, format!("operation `{name}` needs `{capability}`, which `{}` does not provide", store.name)).help(without(
            store,
            capability,
            "provide it",
        ));
    }
    // All or nothing needs more than the store can do, whatever the kind.
    if let Some(atomic) = args.get("atomic").filter(|_| kind.options().contains(&"atomic")) {
        for store in entity.lacking(TRANSACTION) {
            d.error(&atomic.key, format!("`atomic` needs a transactional store; `{}` is not", store.name))
                .help(format!("take `{}` out of `stores(..)`", store.name));
        }
    }
}
