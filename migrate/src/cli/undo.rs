//! `migrate plan --rollback` and `migrate rollback`.

use std::path::Path;

use linchpin_core::schema::{SchemaStore, TransactionMode};
use serde_json::json;

use super::command::ApplyArgs;
use super::output::Outcome;
use crate::error::{Exit, Refusal};
use crate::files::write_document;
use crate::ledger::Installed;
use crate::rollback::{Rollback, rollback};

/// The plan of a rollback.
pub(super) async fn planned(
    store: &dyn SchemaStore,
    out: Option<&Path>,
    check: bool,
) -> Result<Outcome, Refusal> {
    let rollback = make(store).await?;
    let document = rollback.to_json(store.dialect());
    if let Some(out) = out {
        write_document(out, &document)?;
    }
    let pending = check && !rollback.undos.is_empty();
    Ok(Outcome {
        exit: if pending { Exit::Pending } else { Exit::Done },
        ..Outcome::new(rollback.shown(store.dialect()), document)
    })
}

async fn make(store: &dyn SchemaStore) -> Result<Rollback, Refusal> {
    let mut session = store.connect().await?;
    session.begin(TransactionMode::Read).await?;
    let read = async {
        let installed = Installed::load(&mut *session).await?;
        Rollback::make(store, &mut *session, &installed).await
    }
    .await;
    session.rollback().await;
    read
}

/// Carries out a rollback.
pub(super) async fn undone(
    args: &ApplyArgs,
    store: &dyn SchemaStore,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Outcome, Refusal> {
    if args.dry_run {
        return planned(store, None, false).await;
    }
    let done = rollback(store, &args.options, report).await?;
    let steps: Vec<&str> = done.undos.iter().map(|undo| undo.step.as_str()).collect();
    let (seq, name) = (done.seq, &done.name);
    Ok(Outcome::new(
        format!(
            "migration {seq} `{name}` is undone; migration {} is installed",
            seq - 1
        ),
        json!({ "undone": steps, "seq": seq - 1 }),
    ))
}
