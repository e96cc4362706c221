//! The refusal of a server to start, with its reason.

use linchpin_core::schema::{Action, SchemaSession};

use super::Target;
use crate::apply::line;
use crate::canonical;
use crate::error::{Exit, Fact, Refusal};
use crate::ledger::{Installed, Ledger};
use crate::plan::{Plan, Planned};
use crate::step::{Phase, Step, Work};

/// The width of the first column of the report.
const NOUN_WIDTH: usize = 17;
/// The width of the second column of the report.
const NUMBERS_WIDTH: usize = 21;

impl Target<'_> {
    /// Adds the schema of the binary and the window of the database to a refusal. `remark` explains
    /// the window.
    pub(super) fn refused(&self, ledger: Option<&Ledger>, why: Refusal, remark: &str) -> Refusal {
        let name = self.chain.head().map_or("(none)", |head| &head.name);
        let digest = canonical::digest_of(&self.chain.snapshot());
        let row = |noun: &str, numbers: &str, rest: &str| {
            let numbers = format!("{numbers}  ");
            format!("{noun:<NOUN_WIDTH$}{numbers:<NUMBERS_WIDTH$}{rest}")
                .trim_end()
                .to_owned()
        };
        let mut head = format!(
            "this binary cannot serve database `{}` ({})\n\n{}",
            self.store.database(),
            self.store.dialect().name(),
            row(
                "binary schema",
                &format!("{}  {name}", self.chain.seq()),
                &format!("sha256 {}..", &digest[..8])
            ),
        );
        if let Some(ledger) = ledger {
            let window = format!("{} .. {}", ledger.min_seq, ledger.max_seq);
            head.push('\n');
            head.push_str(&row("database accepts", &window, remark));
        }
        let mut facts = Vec::new();
        if !why.message.is_empty() {
            facts.push(Fact {
                code: "",
                text: why.message,
                at: None,
            });
        }
        facts.extend(why.facts);
        Refusal {
            code: why.code,
            exit: Exit::Refused,
            message: head,
            facts,
            help: why.help,
        }
    }

    /// The refusal of a binary outside the window.
    ///
    /// # Errors
    /// A fault of the database, or a history that contradicts the chain.
    pub(super) async fn outside(
        &self,
        session: &mut dyn SchemaSession,
        (installed, ledger): (&Installed, &Ledger),
    ) -> Result<Refusal, Refusal> {
        let seq = self.chain.seq();
        if seq < ledger.min_seq {
            let migration = ledger.migrations.get(&ledger.min_seq);
            let since = migration.map_or_else(String::new, |migration| {
                let at = migration.done_at.unwrap_or(migration.opened_at);
                format!(
                    "; migration {} reached its contract phase at {at}",
                    ledger.min_seq
                )
            });
            let why = Refusal::new("binary_too_old", Exit::Refused, "").help(format!(
                "deploy a binary of schema {} or newer{since}",
                ledger.min_seq
            ));
            return Ok(self.refused(Some(ledger), why, ""));
        }
        let of = (self.chain, self.declared);
        let plan = Plan::make(self.store, session, installed, of).await?;
        let late = plan.migrations.iter().find(|m| m.seq > ledger.max_seq);
        let mut why = Refusal::new("not_expanded", Exit::Refused, "");
        let fence = plan.migrations.iter().find_map(|m| m.fence.clone());
        let ready = plan.migrations.iter().map(|m| m.ready).max();
        let phase = match fence {
            Some(_) => Phase::Contract,
            None => ready.unwrap_or(Phase::Expand),
        };
        for migration in &plan.migrations {
            for step in migration.pending().filter(|step| step.phase <= phase) {
                why = why.fact(missing(step));
            }
        }
        let why = match fence {
            None if phase == Phase::Backfill => why.help(
                "run `migrate apply --phase expand` and `migrate apply --phase backfill` with this \
                 binary, then start it",
            ),
            None => why.help("run `migrate apply --phase expand` with this binary, then start it"),
            Some(reason) => why
                .fact(format!("overlap: no ({reason})"))
                .help("stop the older binary, run `migrate apply` with this binary, then start it"),
        };
        let remark = late.map_or_else(String::new, |m| not_ready(m, phase));
        Ok(self.refused(Some(ledger), why, &remark))
    }
}

fn not_ready(migration: &Planned, phase: Phase) -> String {
    let state = match phase {
        Phase::Contract => "contracted",
        Phase::Backfill => "backfilled",
        Phase::Expand => "expanded",
    };
    format!("(migration {} not {state})", migration.seq)
}

/// One line about a step that this binary needs.
fn missing(step: &Step) -> String {
    let object = match &step.work {
        Work::Schema(Action::CreateTable { table }) => format!("table `{}`", table.name),
        Work::Schema(Action::AddColumn { table, column }) => {
            format!("table `{table}` column `{}`", column.name)
        }
        Work::Schema(Action::CreateIndex { table, index, .. }) => {
            format!("table `{table}` index `{}`", index.name)
        }
        _ => return format!("pending: {}", line(step)),
    };
    format!("missing: {object} (step {})", step.id)
}
