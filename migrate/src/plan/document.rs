//! A plan as JSON, and its digests.

use linchpin_core::schema::{Dialect, SchemaSession, Tables};
use serde_json::{Value as Json, json};

use super::Plan;
use crate::canonical;
use crate::check::{Check, Finding};
use crate::error::Refusal;
use crate::step::{Phase, Step};

impl Plan {
    /// Whether a remaining step needs an approval.
    pub fn needs_approval(&self) -> bool {
        self.pending(Phase::Contract).any(Step::needs_approval)
    }

    /// The digest that approves the plan; `None` if no remaining step needs an approval.
    pub fn approval(&self, dialect: &dyn Dialect) -> Option<String> {
        self.needs_approval().then(|| self.digest(dialect))
    }

    /// The digest of the plan, whether or not it needs an approval.
    pub fn digest(&self, dialect: &dyn Dialect) -> String {
        canonical::digest(&self.document(dialect))
    }

    /// The plan as JSON, without the members that change while it is carried out.
    pub fn document(&self, dialect: &dyn Dialect) -> Json {
        let mut tables = self.start.clone();
        let migrations: Vec<Json> = self
            .migrations
            .iter()
            .map(|migration| {
                let mut steps = Vec::new();
                for step in &migration.steps {
                    steps.push(step.to_json(dialect, &tables));
                    step.apply(&mut tables);
                }
                let transforms: Vec<Json> = migration
                    .transforms
                    .iter()
                    .map(|(name, body)| json!({ "name": name, "body": body }))
                    .collect();
                let mut json = json!({
                    "seq": migration.seq,
                    "name": migration.name,
                    "overlap": migration.fence.is_none(),
                    "transforms": transforms,
                    "steps": steps,
                });
                if let (Some(reason), Some(object)) = (&migration.fence, json.as_object_mut()) {
                    object.insert("reason".to_owned(), json!(reason));
                }
                json
            })
            .collect();
        let mut steps = self.migrations.iter().flat_map(|one| &one.steps);
        json!({
            "format": 2,
            "target": {
                "store": self.store,
                "databaseId": self.database_id,
                "locator": self.locator,
            },
            "from": { "seq": self.from.0, "digest": self.from.1 },
            "to": { "seq": self.to.0, "digest": self.to.1 },
            "recorded": self.recorded,
            "migrations": migrations,
            // Done steps count too: a run that is continued after the last step that needs an
            // approval must have the same digest.
            "approvalRequired": steps.any(Step::needs_approval),
        })
    }

    /// The plan as JSON, with its digest, its notes and the state of its steps.
    pub fn to_json(&self, dialect: &dyn Dialect, findings: &[(String, Check, Finding)]) -> Json {
        let mut json = self.document(dialect);
        let done: Vec<&String> = self.migrations.iter().flat_map(|m| &m.done).collect();
        let checks: Vec<Json> = findings
            .iter()
            .map(|(step, check, finding)| match finding {
                Finding::Holds => json!({ "step": step, "kind": check.kind(), "result": "holds" }),
                Finding::Fails { message, count, .. } => json!({
                    "step": step, "kind": check.kind(), "result": "fails",
                    "count": count, "message": message,
                }),
            })
            .collect();
        if let Some(object) = json.as_object_mut() {
            object.insert("approvalRequired".to_owned(), json!(self.needs_approval()));
            object.insert("approvalDigest".to_owned(), json!(self.approval(dialect)));
            object.insert("notes".to_owned(), json!(self.notes));
            let state = json!({ "done": done, "preconditions": checks });
            object.insert("state".to_owned(), state);
        }
        json
    }

    /// Evaluates those conditions of pending steps that read rows or disk space. Skips conditions
    /// on columns that do not exist yet.
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn findings(
        &self,
        session: &mut dyn SchemaSession,
        dialect: &dyn Dialect,
    ) -> Result<Vec<(String, Check, Finding)>, Refusal> {
        let mut all = Vec::new();
        let mut real = self.start.clone();
        for migration in &self.migrations {
            for step in &migration.steps {
                if migration.done.contains(&step.id) {
                    step.apply(&mut real);
                    continue;
                }
                for check in step
                    .before
                    .iter()
                    .filter(|check| check.reads_rows_or_disk())
                {
                    if exists(&real, check) {
                        let finding = check.evaluate(session, dialect).await?;
                        all.push((step.id.clone(), check.clone(), finding));
                    }
                }
            }
        }
        Ok(all)
    }
}

/// Whether the columns of a condition exist in the database now.
fn exists(tables: &Tables, check: &Check) -> bool {
    let column = |table: &str, column: &str| {
        tables
            .get(table)
            .is_some_and(|table| table.column(column).is_some())
    };
    match check {
        Check::NoDuplicates { table, index, .. } => {
            index.keys.iter().all(|key| column(table, &key.column))
        }
        Check::NoNulls {
            table,
            column: name,
            ..
        }
        | Check::OnlyValues {
            table,
            column: name,
            ..
        } => column(table, name),
        Check::NoOrphans {
            table,
            column: name,
            target,
            target_key,
            ..
        } => column(table, name) && column(target, target_key),
        Check::FreeSpace(table) => tables.contains_key(table),
        _ => false,
    }
}
