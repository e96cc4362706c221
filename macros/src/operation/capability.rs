//! Checks the capabilities of the stores that the entity names. For a store from the configuration,
//! start-up checks the same table.

use syn::LitStr;

use super::kinds::{Input, Kind};
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::entity::grants::{TRANSACTION, without};

/// Reports a store in `stores(..)` that does not support the kind. `reads` is whether the operation
/// only reads.
pub(super) fn check(
    kind: &Kind,
    input: &Input<'_>,
    reads: bool,
    entity: &EntityModel,
    at: &LitStr,
    d: &mut Diagnostics,
) {
    let (args, name) = (input.args, input.name);
    let capability = if reads {
        kind.facts.read_capability
    } else {
        kind.facts.capability
    };
    for store in entity.lacking(capability) {
        d.error(
            at,
            format!(
                "operation `{name}` needs `{capability}`, which `{}` does not provide",
                store.name
            ),
        )
        .help(without(store, capability, "provide it"));
    }
    // An atomic operation needs the transaction capability, whatever the kind.
    if let Some(atomic) = args
        .get("atomic")
        .filter(|_| kind.options.contains(&"atomic"))
    {
        for store in entity.lacking(TRANSACTION) {
            d.error(
                &atomic.key,
                format!(
                    "`atomic` needs a transactional store, but `{}` is not transactional",
                    store.name
                ),
            )
            .help(format!("take `{}` out of `stores(..)`", store.name));
        }
    }
}
