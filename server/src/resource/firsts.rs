//! What a new record keeps of those that named it before it was there.
//!
//! Only a key that somebody may know before can have been named: one that the server makes at
//! random has not.

use std::sync::{Arc, OnceLock};

use crate::entity::{EntityDesc, Flags, Summary};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Compute, Function, Plan, Statement, Store, layout};
use crate::{Result, Value};

/// The numbers that records of an entity keep, and how each is counted at first.
#[derive(Default)]
pub(super) struct Firsts {
    /// What counts, and where it is kept.
    of: OnceLock<Vec<(&'static EntityDesc, &'static Summary)>>,
    prepared: OnceLock<Vec<First>>,
}

/// The statements about one number.
pub(super) struct First {
    /// Counts: the key, and the tenant where it matters.
    pub(super) count: Arc<Statement>,
    /// Writes the number: the key, the number.
    pub(super) write: Arc<Statement>,
    /// Position of the tenant of the record that keeps it.
    tenant: Option<usize>,
}

impl Firsts {
    /// What is kept by an entity, among all that is kept in an app. Only the first call does
    /// anything.
    pub(super) fn learn(
        &self,
        by: &'static EntityDesc,
        all: impl Iterator<Item = &'static EntityDesc>,
    ) {
        let of = |desc: &'static EntityDesc| {
            let own = desc
                .summaries
                .iter()
                .filter(|summary| (summary.target)().storage_name == by.storage_name);
            own.map(move |summary| (desc, summary))
        };
        self.of.get_or_init(|| all.flat_map(of).collect());
    }

    /// Whether records keep anything.
    pub(super) fn any(&self) -> bool {
        self.of.get().is_some_and(|all| !all.is_empty())
    }

    /// Whether a field is one of these numbers.
    pub(super) fn keeps(&self, field: usize) -> bool {
        self.of.get().is_some_and(|all| {
            all.iter()
                .any(|(_, summary)| summary.position() == Some(field))
        })
    }

    /// Whether a new record may have been named before.
    pub(super) fn concerned(&self, desc: &EntityDesc, plan: &Plan) -> bool {
        self.any() && matches!(plan, Plan::Insert | Plan::Upsert { .. }) && nameable(desc)
    }

    /// The statements, made when they are first needed.
    pub(super) fn prepared(
        &self,
        by: &'static EntityDesc,
        store: &Arc<dyn Store>,
    ) -> Result<&[First]> {
        if let Some(prepared) = self.prepared.get() {
            return Ok(prepared);
        }
        let all = self.of.get().map_or(&[][..], Vec::as_slice);
        let made = all
            .iter()
            .filter_map(|(desc, summary)| First::new(by, desc, summary, store).transpose())
            .collect::<Result<Vec<_>>>()?;
        Ok(self.prepared.get_or_init(|| made))
    }
}

impl First {
    fn new(
        by: &'static EntityDesc,
        desc: &'static EntityDesc,
        summary: &Summary,
        store: &Arc<dyn Store>,
    ) -> Result<Option<Self>> {
        let Some(field) = summary.position() else {
            return Ok(None);
        };
        let tenants = desc.tenant.zip(by.tenant);
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
        let those = [Filter::eq_arg(summary.by, 0), Filter::from(&summary.when)]
            .into_iter()
            .chain(own)
            .chain(layout::live(desc));
        let filter = those.fold(Filter::TRUE, Filter::and);
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
            by,
            Plan::Update {
                filter: Filter::eq_arg(by.primary, 0),
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

    /// What the count is of: the key of a record, and its tenant where it matters.
    pub(super) fn which(&self, by: &EntityDesc, record: &[Value]) -> Vec<Value> {
        let tenant = self.tenant.map(|field| record[field].clone());
        std::iter::once(record[by.primary].clone())
            .chain(tenant)
            .collect()
    }
}

/// Whether somebody may know a key before there is a record.
pub(crate) fn nameable(desc: &EntityDesc) -> bool {
    let key = desc.primary_field();
    !key.default.is_generated() || key.flags.has(Flags::CLIENT_SET)
}

/// A number for a key that there may be no record of: who writes it, and who names it, take turns
/// by it.
pub(super) fn turn(desc: &EntityDesc, key: &Value) -> i64 {
    let mut json = Vec::new();
    crate::json::write_value(key.as_ref(), &mut json);
    // FNV-1a: the same in every process.
    let bytes = desc.storage_name.bytes().chain([0]).chain(json);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed()
}
