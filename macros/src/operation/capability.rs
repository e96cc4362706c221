//! Capabilities of stores that the entity names; for stores chosen by configuration, start-up checks the same matrix.

use syn::LitStr;

use super::args::Args;
use super::kinds::Kind;
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;

/// What plain key-value wiring cannot do in one step.
const NOT_ON_REDIS: &[&str] = &[
    "atomic.transition",
    "atomic.increment",
    "atomic.field-update",
    "atomic.array",
    "atomic.collection",
    "atomic.upsert",
    "atomic.consume",
    "batch.write",
    "computed.write",
];

/// Reports a kind that a named store cannot honour.
pub(super) fn check(kind: &dyn Kind, args: &Args, name: &str, entity: &EntityModel, at: &LitStr, d: &mut Diagnostics) {
    let capability = kind.capability(args);
    if entity.stores.iter().any(|store| store == "redis") && NOT_ON_REDIS.contains(&capability) {
        d.error(at, format!("operation `{name}` needs `{capability}`, which `redis` does not provide"))
            .help("take `redis` out of `stores(..)`: memory, sqlite, postgres and mongo provide it");
    }
    // Rule 56: all or nothing needs more than the store can do, whatever the kind.
    if let Some(atomic) = args.get("atomic").filter(|_| kind.options().contains(&"atomic"))
        && entity.stores.iter().any(|store| store == "redis")
    {
        d.error(&atomic.key, "`atomic` needs a transactional store; `redis` is not").help("take `redis` out of `stores(..)`");
    }
}
