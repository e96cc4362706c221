//! Plans and states of databases, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linchpin_core::schema::{Dialect, RowCount, SchemaStore, Tables, TransactionMode};
use serde_json::{Value as Json, json};

use crate::adopt;
use crate::chain::Chain;
use crate::check::{Check, Finding};
use crate::error::Refusal;
use crate::ledger::Installed;
use crate::plan::{Declared, Plan, refuse_foreign};
use crate::sample::{self, Sample};
use crate::step::{Phase, RowClass};

/// A plan with the results of its conditions and trial runs, and with row counts.
pub(super) struct EvaluatedPlan {
    pub(super) plan: Plan,
    /// The results of the conditions that read rows.
    pub(super) findings: Vec<(String, Check, Finding)>,
    /// The trial runs of transforms.
    samples: Vec<Sample>,
    /// The numbers of rows in the tables of pending steps.
    rows: BTreeMap<String, RowCount>,
}

impl EvaluatedPlan {
    /// The plan as JSON, with the state of its steps.
    pub(super) fn document(&self, dialect: &dyn Dialect) -> Json {
        let mut document = self.plan.to_json(dialect, &self.findings);
        if let Some(state) = document["state"].as_object_mut() {
            let samples = self.samples.iter().map(|sample| {
                json!({
                    "step": sample.step,
                    "records": sample.rows,
                    "refused": sample.refused,
                })
            });
            state.insert("samples".to_owned(), samples.collect());
            let rows = self.rows.iter().filter_map(|(table, rows)| match rows {
                RowCount::Exact(rows) | RowCount::Estimate(rows) => {
                    Some((table.clone(), json!(rows)))
                }
                RowCount::Unknown => None,
            });
            state.insert("rows".to_owned(), rows.collect());
        }
        document
    }
}

/// Makes a plan in one read-only transaction.
pub(super) async fn evaluate(
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
) -> Result<EvaluatedPlan, Refusal> {
    let mut session = store.connect().await?;
    session.begin(TransactionMode::Read).await?;
    let read = async {
        let installed = Installed::load(&mut *session).await?;
        let plan = if refuse_foreign(&installed, &declared.snapshot).is_ok() {
            Plan::make(store, &mut *session, &installed, (chain, declared)).await?
        } else {
            adopt::plan(store, &mut *session, &installed, (chain, declared)).await?
        };
        let dialect = store.dialect();
        let findings = plan.findings(&mut *session, dialect).await?;
        let samples = sample::samples(&plan, &mut *session, dialect, declared).await?;
        let present = plan.present_tables();
        let mut rows = BTreeMap::new();
        for step in plan.pending(Phase::Contract) {
            let table = step.table();
            if present.contains_key(table) && !rows.contains_key(table) {
                rows.insert(table.to_owned(), session.count(table).await?);
            }
        }
        Ok(EvaluatedPlan {
            plan,
            findings,
            samples,
            rows,
        })
    }
    .await;
    session.rollback().await;
    read
}

/// The state of a database as text.
pub(super) fn status_text(json: &Json) -> String {
    let text = |json: &Json| {
        json.as_str()
            .map_or_else(|| json.to_string(), str::to_owned)
    };
    let list = |key: &str| json[key].as_array().cloned().unwrap_or_default();
    let mut lines = format!(
        "{} {}   {}",
        text(&json["target"]["store"]),
        text(&json["target"]["database"]),
        text(&json["state"])
    );
    if json["seq"].is_u64() {
        let window = &json["window"];
        let _ = write!(
            lines,
            "   schema {}   accepts {} .. {}   rollback {}",
            json["seq"],
            window["min"],
            window["max"],
            if json["rollbackOpen"] == true {
                "open"
            } else {
                "closed"
            }
        );
    }
    lines.push('\n');
    for migration in list("migrations") {
        let name = text(&migration["name"]);
        let _ = writeln!(
            lines,
            "migration {} {name}   {}",
            migration["seq"],
            text(&migration["state"])
        );
        let steps = migration["steps"].as_array().cloned().unwrap_or_default();
        for step in steps.iter().filter(|step| step["state"] != "done") {
            let _ = write!(
                lines,
                "  step {} {}   rows done {}",
                text(&step["id"]),
                text(&step["state"]),
                step["rowsDone"],
            );
            for (key, before, after) in [
                ("rows", " of ", ""),
                ("rowsFailed", "   rows failed ", ""),
                ("rowsPerSecond", "   ", " rows/s"),
                ("restSeconds", "   about ", " s left"),
            ] {
                if step[key].is_u64() {
                    let _ = write!(lines, "{before}{}{after}", step[key]);
                }
            }
            lines.push('\n');
        }
    }
    for migration in list("pending") {
        let name = text(&migration["name"]);
        let _ = writeln!(lines, "migration {} {name}   pending", migration["seq"]);
    }
    for instance in list("instances") {
        let _ = writeln!(
            lines,
            "instance {} on {}   schema {}   lease until {}",
            text(&instance["id"]),
            text(&instance["host"]),
            instance["seq"],
            text(&instance["leaseEnd"])
        );
    }
    lines
}

/// The plan as text.
pub(super) fn plan_text(
    evaluated: &EvaluatedPlan,
    store: &dyn SchemaStore,
    with_digest: bool,
) -> String {
    let EvaluatedPlan {
        plan,
        findings,
        samples,
        rows,
    } = evaluated;
    let mut text = String::new();
    for migration in &plan.migrations {
        let overlap = match &migration.fence {
            None => "yes".to_owned(),
            Some(reason) => format!("no ({reason})"),
        };
        let _ = writeln!(
            text,
            "migration {} {}   {} {}   {} -> {}   overlap: {overlap}",
            migration.seq,
            migration.name,
            plan.store,
            plan.database,
            migration.seq.saturating_sub(1),
            migration.seq,
        );
        let mut tables = plan.start.clone();
        for step in &migration.steps {
            let json = step.to_json(store.dialect(), &tables);
            step.apply(&mut tables);
            let lock = json["lock"].as_str().unwrap_or_default();
            let object = step.object.as_ref().map(|object| format!(".{object}"));
            let what = format!(
                "{} {}{}",
                step.kind,
                step.entity,
                object.unwrap_or_default()
            );
            let mark = if step.needs_approval() { "!" } else { " " };
            let done = if migration.done.contains(&step.id) {
                "   done"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "{mark} {:<9} {} {what:<44} {:<11} {lock:<22} {}{done}",
                step.phase.name(),
                step.id,
                step.risk.name(),
                row_count_text(rows.get(step.table()), step.class)
            );
            for (new, present) in step.renamed_columns() {
                let _ = writeln!(text, "              renames `{present}` to `{new}`");
            }
            for (_, check, finding) in findings.iter().filter(|(id, ..)| *id == step.id) {
                let _ = match finding {
                    Finding::Holds => writeln!(text, "              {} holds", check.kind()),
                    Finding::Fails { message, .. } => {
                        writeln!(text, "              {} fails: {message}", check.kind())
                    }
                };
            }
            for sample in samples.iter().filter(|sample| sample.step == step.id) {
                let _ = writeln!(text, "              {}", sample.described());
            }
        }
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if plan.migrations.is_empty() {
        text.push_str("nothing to do\n");
    } else if plan.pending(Phase::Contract).next().is_none() {
        text.push_str(if plan.recorded {
            "no step is needed; `migrate apply` records the migration in the database\n"
        } else {
            "no step is needed; `migrate record NAME` records the change\n"
        });
    }
    if let Some(digest) = plan.approval(store.dialect()) {
        text.push_str("approval needed for steps marked !\n");
        let _ = if with_digest {
            writeln!(text, "approval digest {digest}")
        } else {
            writeln!(text, "`migrate plan` prints the approval digest")
        };
    }
    text
}

/// The number of rows: exact, an estimate from statistics, or a size class.
fn row_count_text(rows: Option<&RowCount>, class: RowClass) -> String {
    match rows {
        Some(RowCount::Exact(rows)) => format!("{rows} rows"),
        Some(RowCount::Estimate(rows)) => format!("~{rows} rows"),
        Some(RowCount::Unknown) | None if class == RowClass::EMPTY => "no rows".to_owned(),
        Some(RowCount::Unknown) | None => format!("{} rows", class.name()),
    }
}

/// The statements of the pending steps, for review. Each step begins with a comment line.
pub(super) fn statements(plan: &Plan, store: &dyn SchemaStore) -> String {
    let mut text = String::new();
    let mut tables: Tables = plan.start.clone();
    for migration in &plan.migrations {
        for step in &migration.steps {
            let list = step.statements(store.dialect(), &tables);
            step.apply(&mut tables);
            if migration.done.contains(&step.id) {
                continue;
            }
            // A name may contain a line break, which would end the comment.
            let object = step.object.as_deref().unwrap_or_default();
            let comment = format!(
                "{} {} {} {} {object}",
                step.id,
                step.phase.name(),
                step.kind,
                step.entity
            );
            let _ = writeln!(text, "-- {}", comment.trim_end().escape_debug());
            for statement in list {
                let _ = writeln!(text, "{statement};");
            }
        }
    }
    text
}
