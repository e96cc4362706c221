//! The first values of the counters of a new record. Other records may refer to a record before it
//! exists.
//!
//! This is possible only if clients can choose or know the key. A random key of the server cannot
//! be known in advance.

use std::sync::{Arc, OnceLock};

use crate::entity::{EntityDesc, Flags, Summary};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Compute, Function, Plan, Statement, Store, layout};
use crate::{Result, Value};

/// The counters of an entity, and the statements that compute their first values.
#[derive(Default)]
pub(super) struct CounterBackfill {
    /// The counted entity and its declaration, per counter.
    counters: OnceLock<Vec<(&'static EntityDesc, &'static Summary)>>,
    prepared: OnceLock<Vec<Counter>>,
}

/// The statements for one counter.
pub(super) struct Counter {
    /// Counts the records. Arguments: the key, and the tenant if both entities have one.
    pub(super) count: Arc<Statement>,
    /// Writes the number. Arguments: the key, the number.
    pub(super) write: Arc<Statement>,
    /// Position of the tenant in the record with the counter.
    tenant: Option<usize>,
}

impl CounterBackfill {
    /// Finds the counters of an entity among all entities of an app. Only the first call has an
    /// effect.
    pub(super) fn find_counters(
        &self,
        counter_entity: &'static EntityDesc,
        all: impl Iterator<Item = &'static EntityDesc>,
    ) {
        let of = |desc: &'static EntityDesc| {
            let own = desc
                .summaries
                .iter()
                .filter(|summary| (summary.target)().storage_name == counter_entity.storage_name);
            own.map(move |summary| (desc, summary))
        };
        self.counters.get_or_init(|| all.flat_map(of).collect());
    }

    /// Whether the entity has counters.
    pub(super) fn has_counters(&self) -> bool {
        self.counters.get().is_some_and(|all| !all.is_empty())
    }

    /// Whether a field is a counter.
    pub(super) fn is_counter(&self, field: usize) -> bool {
        self.counters.get().is_some_and(|all| {
            all.iter()
                .any(|(_, summary)| summary.position() == Some(field))
        })
    }

    /// Whether a statement may create a record to which other records refer already.
    pub(super) fn applies_to(&self, desc: &EntityDesc, plan: &Plan) -> bool {
        self.has_counters()
            && matches!(plan, Plan::Insert | Plan::Upsert { .. })
            && is_key_predictable(desc)
    }

    /// The statements, prepared at their first use.
    pub(super) fn prepared(
        &self,
        counter_entity: &'static EntityDesc,
        store: &Arc<dyn Store>,
    ) -> Result<&[Counter]> {
        if let Some(prepared) = self.prepared.get() {
            return Ok(prepared);
        }
        let all = self.counters.get().map_or(&[][..], Vec::as_slice);
        let made = all
            .iter()
            .filter_map(|(desc, summary)| {
                Counter::new(counter_entity, desc, summary, store).transpose()
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(self.prepared.get_or_init(|| made))
    }
}

impl Counter {
    fn new(
        counter_entity: &'static EntityDesc,
        desc: &'static EntityDesc,
        summary: &Summary,
        store: &Arc<dyn Store>,
    ) -> Result<Option<Self>> {
        let Some(field) = summary.position() else {
            return Ok(None);
        };
        let tenants = desc.tenant.zip(counter_entity.tenant);
        let own = tenants.map(|(own, _)| {
            Filter::cond(
                own.field,
                Op::Eq,
                Operand::One(Source::Arg {
                    index: 1,
                    nullable: true,
                }),
            )
        });
        let conditions = [Filter::eq_arg(summary.by, 0), Filter::from(&summary.when)]
            .into_iter()
            .chain(own)
            .chain(layout::live(desc));
        let filter = conditions.fold(Filter::TRUE, Filter::and);
        let compute = vec![Compute {
            function: Function::Count,
            field: desc.primary,
            filter: Filter::TRUE,
        }];
        let count = store.prepare(
            desc,
            Plan::Aggregate {
                filter,
                groups: Vec::new(),
                by_value: Vec::new(),
                compute,
                limit: 1,
            },
        )?;
        let set = vec![Assign {
            field,
            value: AssignValue::Set(Source::Arg {
                index: 1,
                nullable: false,
            }),
        }];
        let write = store.prepare(
            counter_entity,
            Plan::Update {
                filter: Filter::eq_arg(counter_entity.primary, 0),
                set,
                pick: None,
            },
        )?;
        Ok(Some(Self {
            count,
            write,
            tenant: tenants.map(|(_, target)| target.field),
        }))
    }

    /// The arguments of the count: the key of a record, and its tenant if both entities have one.
    pub(super) fn key_args(&self, counter_entity: &EntityDesc, record: &[Value]) -> Vec<Value> {
        let tenant = self.tenant.map(|field| record[field].clone());
        std::iter::once(record[counter_entity.primary].clone())
            .chain(tenant)
            .collect()
    }
}

/// Whether a client can know the key of a record before it exists.
pub(crate) fn is_key_predictable(desc: &EntityDesc) -> bool {
    let key = desc.primary_field();
    !key.default.is_generated() || key.flags.has(Flags::CLIENT_SET)
}

/// The id of the advisory lock for a key that may have no record yet. Creating the record takes
/// this lock, and so does counting a record that refers to it.
pub(super) fn advisory_lock_id(desc: &EntityDesc, key: &Value) -> i64 {
    let mut json = Vec::new();
    crate::json::write_value(key.as_ref(), &mut json);
    // FNV-1a: the same in every process.
    let bytes = desc.storage_name.bytes().chain([0]).chain(json);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed()
}
