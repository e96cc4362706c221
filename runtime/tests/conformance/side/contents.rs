//! The stored records of a side, and checks of their consistency.

use linchpin::entity::EntityDesc;
use linchpin::filter::Filter;
use linchpin::filter::eval::matches;
use linchpin::store::{Row, Rows};
use linchpin::{Value, ValueRef};

use super::text::records;
use super::{Side, all};

impl Side {
    /// All stored records of an entity, with private fields and deleted records. Expired records
    /// are left out, because the time of their removal is not defined.
    pub async fn contents(&mut self, desc: &'static EntityDesc) -> String {
        let (all, _) = &self.read_and_remove[desc.storage_name];
        let rows = self
            .store
            .run(all, Vec::new(), Rows::records(desc))
            .rows()
            .await
            .expect("the contents");
        assert!(rows.records.len() < 500, "more records than one page");
        let now = self.now();
        let expired = |record: &[Value]| {
            desc.ttl
                .is_some_and(|ttl| matches!(record[ttl.field], Value::Date(at) if at <= now))
        };
        let live: Vec<&Box<[Value]>> = rows
            .records
            .iter()
            .filter(|record| !expired(record))
            .collect();
        let mut problems = String::new();
        for record in &live {
            self.remember(desc, record);
            // Both sides might be wrong in the same way, so computed fields are checked against
            // their inputs.
            for (field, value) in desc.fields.iter().zip(&record[..]) {
                let expected = field
                    .computed
                    .map(|computed| (computed.value)(&Stored(record)));
                if expected
                    .is_some_and(|expected| !matches!(expected, Ok(expected) if expected == *value))
                {
                    problems.push_str(&format!(
                        "\n{}: `{}` does not have the value that is computed from {record:?}",
                        self.store.name(),
                        field.wire
                    ));
                }
            }
        }
        self.named(records(desc, live.into_iter())) + &problems
    }

    /// Checks that every counter of an entity equals the number of the records that it counts.
    pub async fn check_counters(
        &self,
        desc: &'static EntityDesc,
    ) -> std::result::Result<(), String> {
        for other in all() {
            for summary in other
                .summaries
                .iter()
                .filter(|summary| (summary.target)().storage_name == desc.storage_name)
            {
                let field = summary.position().expect("a field");
                let when = Filter::from(&summary.when);
                let (records, counting_records) =
                    (self.stored(other).await, self.stored(desc).await);
                for record in counting_records {
                    let refers = |one: &[Value]| one[summary.by] == record[desc.primary];
                    let has_same_tenant = |one: &[Value]| match other.tenant.zip(desc.tenant) {
                        Some((theirs, ours)) => one[theirs.field] == record[ours.field],
                        None => true,
                    };
                    let is_live = |one: &[Value]| {
                        other
                            .soft_delete
                            .is_none_or(|mark| one[mark.field()].is_null())
                    };
                    let counted = records
                        .iter()
                        .filter(|one| {
                            refers(one)
                                && has_same_tenant(one)
                                && is_live(one)
                                && matches(&when, &***one, &[])
                        })
                        .count();
                    if record[field] != Value::Int(counted as i64) {
                        let (key, is) = (&record[desc.primary], &record[field]);
                        return Err(format!(
                            "{} {key:?} has {is:?} in {}, but {} has {counted} such records",
                            desc.name, summary.field, other.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    async fn stored(&self, desc: &'static EntityDesc) -> Vec<Box<[Value]>> {
        let (all, _) = &self.read_and_remove[desc.storage_name];
        self.store
            .run(all, Vec::new(), Rows::records(desc))
            .rows()
            .await
            .expect("the contents")
            .records
    }
}

/// A stored record.
struct Stored<'a>(&'a [Value]);

impl Row for Stored<'_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        self.0[field].as_ref()
    }
}
