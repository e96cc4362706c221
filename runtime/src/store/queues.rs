//! Queues of this process for statements that would get into each other's way.
//!
//! Two statements that each write several things that the other wants wait for each other until somebody ends one of them: two
//! records that exchange their values of a unique, say. Of those on one entity only one runs at a time.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

use tokio::sync::{Mutex, MutexGuard};

use super::{Plan, Statement};
use crate::filter::{Filter, Op};

/// Entities share so many queues.
const QUEUES: usize = 256;

/// When a statement waits in the queue of its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Never: it writes one record, and whoever has that goes on.
    Never,
    /// When it has been held up too often.
    Late,
    /// From the beginning.
    Always,
}

/// Waits to be the first in a queue: of an entity, and where it is.
pub(crate) async fn first(of: impl Hash) -> MutexGuard<'static, ()> {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static ALL: [Mutex<()>; QUEUES] = [const { Mutex::const_new(()) }; QUEUES];
    ALL[KEYS.hash_one(of) as usize % QUEUES].lock().await
}

impl Statement {
    /// When it waits in the queue of its entity. One that writes a unique of records that are there may meet another one that has what
    /// it wants, and wants what it has. Two that take some records which nobody else is at would leave each other fewer.
    pub(crate) fn queue(&self) -> Queue {
        let one = |filter: &Filter| pins(filter, self.entity.primary);
        match &self.plan {
            Plan::Update { pick: Some(pick), .. } | Plan::Delete { pick: Some(pick), .. } if !pick.waits && pick.limit > 1 => Queue::Always,
            Plan::Update { set, .. } | Plan::Upsert { set, .. }
                if set.iter().any(|assign| self.entity.uniques.iter().any(|unique| unique.fields.contains(&assign.field))) =>
            {
                Queue::Always
            }
            Plan::Update { filter, .. } | Plan::Delete { filter, .. } if !one(filter) => Queue::Late,
            _ => Queue::Never,
        }
    }
}

/// Whether a filter compares a field with one value.
fn pins(filter: &Filter, field: usize) -> bool {
    match filter {
        Filter::All(parts) => parts.iter().any(|part| pins(part, field)),
        Filter::Cond { field: of, op, .. } => *of == field && *op == Op::Eq,
        _ => false,
    }
}
