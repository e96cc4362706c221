//! The progress of a backfill, from one batch and one run to the next.

use std::collections::BTreeSet;
use std::time::Duration;

use linchpin_core::Value;
use linchpin_core::schema::{SchemaError, SchemaSession, value_of};

use super::Work;
use crate::check::shown;
use crate::error::{Exit, Refusal};
use crate::ledger::Installed;
use crate::rows::RefusedRow;

/// The maximum number of keys of refused rows in a message.
const MAX_LISTED_KEYS: usize = 20;

/// The progress of a run.
pub(super) struct Progress {
    /// The maximum number of rows of the next batch.
    pub(super) batch: u64,
    /// The number of batches of this run.
    pub(super) batches: u64,
    /// The rows that were written, also in earlier runs.
    pub(super) done: u64,
    /// The key after which the first pass continues.
    pub(super) cursor: Option<Value>,
    /// The number of refused rows of this pass.
    pub(super) failed: usize,
    /// The first refused rows.
    pub(super) refused: Vec<RefusedRow>,
}

impl Progress {
    /// Reads the progress of an earlier run.
    pub(super) async fn load(
        session: &mut dyn SchemaSession,
        work: Work<'_>,
    ) -> Result<Self, SchemaError> {
        let installed = Installed::load(session).await?;
        let step = installed.ledger().and_then(|l| l.steps.get(work.id));
        let (done, failed) = step.map_or((0, 0), |step| (step.rows_done, step.rows_failed));
        let key = step
            .and_then(|step| step.cursor.as_deref())
            .and_then(|cursor| serde_json::from_str(cursor).ok())
            .and_then(|cursor| value_of(&cursor, &work.data.key().kind));
        Ok(Self {
            batch: 1,
            batches: 0,
            done,
            // Refused rows are visited again. If no SQL condition can find them, all rows are
            // visited again.
            cursor: key.filter(|_| failed == 0 || work.data.has_condition()),
            failed: 0,
            refused: Vec::new(),
        })
    }

    /// Changes the size of batches so that one takes the wanted time.
    pub(super) fn adapt(&mut self, took: Duration, target: Duration, largest: u64) {
        if took > target * 2 {
            self.batch = (self.batch / 2).max(1);
        } else if took < target / 2 {
            self.batch = (self.batch * 2).min(largest);
        }
    }

    /// Adds the refused rows of a batch.
    pub(super) fn add_refused(&mut self, refused: Vec<RefusedRow>) {
        self.failed += refused.len();
        let free = MAX_LISTED_KEYS.saturating_sub(self.refused.len());
        self.refused.extend(refused.into_iter().take(free));
    }
}

/// The refusal of a run whose transform refused rows.
pub(super) fn transform_failed(state: &Progress) -> Refusal {
    let records = match state.failed {
        1 => "1 record".to_owned(),
        n => format!("{n} records"),
    };
    let mut refusal = Refusal::new(
        "transform_failed",
        Exit::Data,
        format!("the transform refused {records}; they are unchanged"),
    )
    .help(
        "correct these records and run the command again; it continues with the rows that are not \
         done",
    );
    let mut seen = BTreeSet::new();
    for RefusedRow { key, message } in &state.refused {
        let key = shown(key);
        if seen.insert(key.clone()) {
            refusal = refusal.fact(format!("{key}: {message}"));
        }
    }
    refusal
}
