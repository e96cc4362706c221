//! Compares the tables with the ledger before steps change them.

use linchpin_core::schema::{Action, Difference, DifferenceCode as Code, Table, check_name};

use super::run::Run;
use crate::error::{Exit, Refusal};
use crate::ledger::StepState;
use crate::plan::Planned;
use crate::step::{Step, Work};

impl Run<'_> {
    /// Refuses a database if a table that a pending step changes differs from the ledger. Remains
    /// of an interrupted step do not count, because the step continues.
    pub(super) async fn refuse_drift(&mut self) -> Result<(), Refusal> {
        let pending: Vec<&Step> = self
            .plan
            .migrations
            .iter()
            .flat_map(Planned::pending)
            .collect();
        let touched: Vec<&str> = pending
            .iter()
            .map(|step| match &step.work {
                Work::Schema(Action::RenameTable { from, .. }) => from,
                Work::Schema(action) => action.table(),
                Work::Data(data) => data.table(),
                Work::Check { table, .. } => table,
            })
            .collect();
        let expected: Vec<&Table> = self
            .tables
            .values()
            .filter(|table| touched.contains(&table.name.as_str()))
            .collect();
        let differences = self.session.compare(&expected).await?;
        let found: Vec<Difference> = differences
            .into_iter()
            .filter(|difference| {
                let interrupted = |step: &&Step| is_remainder(difference, step, self.started(step));
                let lost = is_lost(difference) && pending.iter().any(|s| rebuilds(s, difference));
                (lost || !is_foreign(difference)) && !pending.iter().any(interrupted)
            })
            .collect();
        drift(&found)
    }

    /// Whether an earlier run started a step and did not finish it.
    fn started(&self, step: &Step) -> bool {
        let known = self.ledger.steps.get(&step.id);
        known.is_some_and(|known| !matches!(known.state, StepState::Pending | StepState::Done))
    }
}

/// Whether the database has an object that the app does not declare. Migrations do not change it.
pub(crate) fn is_foreign(difference: &Difference) -> bool {
    difference.code.is_harmless()
        || matches!(difference.code, Code::ExtraTrigger | Code::ExtraUnique)
}

/// Whether a rebuild of the table would lose the object.
fn is_lost(difference: &Difference) -> bool {
    matches!(
        difference.code,
        Code::ExtraColumn | Code::ExtraRequiredColumn | Code::ExtraConstraint
    )
}

fn rebuilds(step: &Step, difference: &Difference) -> bool {
    matches!(&step.work, Work::Schema(Action::Rebuild { from, .. }) if from.name == difference.table)
}

/// Whether a difference is the remainder of an unfinished step that runs outside a transaction.
fn is_remainder(difference: &Difference, step: &Step, started: bool) -> bool {
    let is = |name: &str| difference.object.as_deref() == Some(name);
    let Work::Schema(action) = &step.work else {
        return false;
    };
    if action.table() != difference.table {
        return false;
    }
    match action {
        // If the index exists already, the action itself compares it with the expected one.
        Action::CreateIndex { index, .. } => is(&index.name),
        Action::DropIndex { index, .. } => started && is(index),
        Action::AddColumn { table, column } => {
            started && (is(&column.name) || is(&check_name(table, &column.name)))
        }
        _ => false,
    }
}

/// Returns the refusal `drift` with the differences, if there are any.
pub(crate) fn drift(found: &[Difference]) -> Result<(), Refusal> {
    if found.is_empty() {
        return Ok(());
    }
    let mut refusal = Refusal::new("drift", Exit::Data, "the tables differ from the ledger")
        .help("undo the change by hand; `migrate verify` lists every difference");
    for difference in found {
        refusal = refusal.fact(difference.to_string());
    }
    Err(refusal)
}
