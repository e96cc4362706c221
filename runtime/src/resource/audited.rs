//! Statements whose changes are told: what records were, what they are, and the entries about them, in one transaction.

use std::sync::Arc;

use super::guard;
use super::statement::Statements;
use crate::audit::{Auditing, Seen};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Plan, Reply, Rows, Statement};
use crate::validate::list_value;
use crate::{Code, Cx, Error, Result, Value};

impl Statements {
    /// Runs a statement that changes records, and tells the audit log of each of them.
    pub(super) fn audited<'a>(
        &'a self,
        cx: Cx,
        auditing: Arc<Auditing>,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        let told = async move |cx: &Cx| -> Result<Rows> {
            let (before, mut rows) = self.seen(cx, statement, args, rows).await?;
            let removes = matches!(statement.plan, Plan::Delete { .. });
            let primary = self.desc().primary;
            for record in rows.witnessed() {
                let known = before.iter().find(|old| old[primary] == record[primary]);
                let seen = match (removes, known) {
                    (true, _) => Seen { before: Some(&record), after: None },
                    (false, Some(old)) => Seen { before: Some(old), after: Some(&record) },
                    (false, None) if matches!(statement.plan, Plan::Insert) || rows.created => Seen { before: None, after: Some(&record) },
                    // Made by somebody else between the look and the write.
                    (false, None) => return Err(Error::new(Code::Conflict, "The record kept changing; try again")),
                };
                auditing.tell(cx, self.desc(), seen).await?;
            }
            Ok(rows)
        };
        Reply::Later(Box::pin(async move { cx.transaction(told).await }))
    }

    /// Runs a statement; the records that it changes as they were, and what it answers.
    async fn seen(&self, cx: &Cx, statement: &Arc<Statement>, mut args: Vec<Value>, rows: Rows) -> Result<(Vec<Box<[Value]>>, Rows)> {
        let (desc, rows) = (self.desc(), rows.witnessing(self.desc()));
        let (looking, narrowed) = match &statement.plan {
            Plan::Update { filter, set, pick } => {
                let those = Source::Arg { index: guard::arity(desc, &statement.plan), nullable: false };
                let filter_of = || filter.clone().and(Filter::cond(desc.primary, Op::In, Operand::One(those.clone())));
                let look = self.derived(statement, b'l', || Plan::Lock { filter: filter.clone(), pick: pick.clone() })?;
                let write = self.derived(statement, b'w', || Plan::Update { filter: filter_of(), set: set.clone(), pick: None })?;
                (look, Some(write))
            }
            Plan::Upsert { keys, .. } => {
                let same = || keys.iter().fold(Filter::TRUE, |all, key| all.and(Filter::eq_arg(*key, *key)));
                (self.derived(statement, b'l', || Plan::Lock { filter: same(), pick: None })?, None)
            }
            _ => return Ok((Vec::new(), self.run(cx, statement, args, rows).await?)),
        };
        let before = self.run(cx, &looking, args.clone(), Rows::records(desc)).await?.records;
        let Some(write) = narrowed else { return Ok((before, self.run(cx, statement, args, rows).await?)) };
        if before.is_empty() {
            return Ok((before, rows.without_recording()));
        }
        // The records that were seen, whatever else matches by now.
        let keys: Vec<Value> = before.iter().map(|record| record[desc.primary].clone()).collect();
        args.truncate(guard::arity(desc, &statement.plan));
        args.push(list_value(&keys));
        let rows = self.run(cx, &write, args, rows).await?;
        Ok((before, rows))
    }
}
