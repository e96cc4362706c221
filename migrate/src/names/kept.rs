//! Fields that get another type and whose earlier column is kept up to date.

use linchpin_core::Value;
use linchpin_core::entity::TransformDesc;
use linchpin_core::schema::{FieldSnapshot, Table};
use linchpin_core::store::{Conversion, Replaced};

use crate::chain::Migration;
use crate::change::Change;
use crate::data::FillValue;
use crate::error::{Exit, Refusal};
use crate::lower::entity::{is_replaced, replacement};
use crate::lower::fill::default_value;

/// Finds a function of the binary by its name.
pub(crate) type Functions<'a> = &'a dyn Fn(&str) -> Option<&'static TransformDesc>;

/// A field that an open migration gives another type, with the functions that convert its values.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    was: FieldSnapshot,
    is: FieldSnapshot,
    forth: Recorded,
    back: Recorded,
}

/// A function as a migration has recorded it.
#[derive(Clone, Debug)]
struct Recorded {
    name: String,
    body: String,
    /// The number and the name of the migration.
    migration: (u64, String),
}

impl Changed {
    /// Returns the field, if a migration gives it another type and records both functions.
    pub(super) fn of(
        migration: Option<&Migration>,
        entity: &str,
        field: &str,
        (was, is): (&FieldSnapshot, &FieldSnapshot),
    ) -> Option<Self> {
        let migration = migration.filter(|_| is_replaced(was, is))?;
        let (forth, back) = migration.changes.iter().find_map(|change| match change {
            Change::ReplaceField {
                entity: of,
                field: name,
                transform,
                reverse: Some(reverse),
                ..
            }
            | Change::ChangeType {
                entity: of,
                field: name,
                transform,
                reverse: Some(reverse),
            } if of == entity && name == field => Some((transform, reverse)),
            _ => None,
        })?;
        let recorded = |name: &String| {
            let record = migration.transforms.iter().find(|one| one.name == *name);
            Recorded {
                name: name.clone(),
                body: record.map_or_else(String::new, |record| record.body.clone()),
                migration: (migration.seq, migration.name.clone()),
            }
        };
        Some(Self {
            was: was.clone(),
            is: is.clone(),
            forth: recorded(forth),
            back: recorded(back),
        })
    }

    /// The new column, the earlier column, and the column with the copy of the earlier value.
    /// `None` if the new ones do not exist yet, or the earlier one no longer exists.
    pub(super) fn columns<'t>(&self, real: &'t Table) -> Option<[&'t str; 3]> {
        let (next, source) = replacement(&self.is.column);
        let column = |name: &str| Some(real.column(name)?.name.as_str());
        Some([column(&next)?, column(&self.was.column)?, column(&source)?])
    }

    /// Returns the instructions with which the store keeps both columns up to date.
    ///
    /// # Errors
    /// `transform_missing` if the binary lacks a function, `transform_changed` if its function
    /// differs from the recorded one.
    pub(super) fn replaced(
        &self,
        [_, old, source]: [&str; 3],
        functions: Functions<'_>,
    ) -> Result<Replaced, Refusal> {
        let (was, is) = (&self.was, &self.is);
        let null = |of: &FieldSnapshot| match default_value(of).filter(|_| !of.optional) {
            Some(FillValue::Literal(value)) => value,
            _ => Value::Null,
        };
        Ok(Replaced {
            old: old.to_owned(),
            kind: was.column_kind(),
            optional: was.optional,
            source: source.to_owned(),
            required: !is.optional,
            forth: Conversion {
                function: self.forth.find(functions)?,
                null: null(is),
            },
            back: Conversion {
                function: self.back.find(functions)?,
                null: null(was),
            },
        })
    }
}

impl Recorded {
    fn find(&self, functions: Functions<'_>) -> Result<&'static TransformDesc, Refusal> {
        let (seq, migration) = &self.migration;
        let name = &self.name;
        let Some(function) = functions(name) else {
            return Err(Refusal::new(
                "transform_missing",
                Exit::Planning,
                format!(
                    "this binary has no transform `{name}`; the open migration {seq} `{migration}` \
                     needs it to keep two columns up to date"
                ),
            )
            .help(
                "register it: `linchpin::migrations!(\"migrations\", transforms = [path])`, or \
                 finish the migration",
            ));
        };
        if function.body == self.body {
            return Ok(function);
        }
        Err(Refusal::new(
            "transform_changed",
            Exit::Planning,
            format!("`{name}` has changed since migration {seq} `{migration}` was recorded"),
        )
        .help("undo the change of the function until the migration is finished"))
    }
}

#[cfg(test)]
mod tests {
    use linchpin_core::entity::{Kind, SourceLine, TransformFrom, TransformType};
    use linchpin_core::schema::{Column, ColumnKind, Snapshot};
    use linchpin_core::store::TableNames;
    use serde_json::json;

    use super::super::{Stage, names};
    use super::*;

    const fn function(name: &'static str, from: Kind, to: Kind) -> TransformDesc {
        let of = TransformType {
            kind: from,
            optional: false,
        };
        TransformDesc {
            name,
            from: TransformFrom::Value(of),
            to: TransformType { kind: to, ..of },
            body: "5f",
            reverse: None,
            run: |_| Err("not run".into()),
            at: SourceLine { file: "", line: 0 },
        }
    }

    static PARSE: TransformDesc = function("app::parse", Kind::String, Kind::Integer);
    static SHOW: TransformDesc = function("app::show", Kind::Integer, Kind::String);
    static OTHER: TransformDesc = TransformDesc {
        body: "6f",
        ..function("app::show", Kind::Integer, Kind::String)
    };

    fn snapshot(name: &str, kind: &str, former: &[&str]) -> Snapshot {
        let plain =
            json!({ "type": "string", "column": "id", "optional": false, "formerNames": [] });
        let field = json!({
            "type": kind, "column": name, "optional": false, "formerNames": former,
        });
        serde_json::from_value(json!({ "format": 2, "entities": { "files": {
            "name": "File", "storageName": "files", "formerNames": [], "primary": "id",
            "fields": { "id": plain, name: field },
            "indexes": [], "uniques": [], "counters": [], "checks": [],
        } } }))
        .expect("a snapshot")
    }

    fn table_names(
        migration: &Migration,
        added: &[&str],
        functions: Functions<'_>,
    ) -> Result<Option<TableNames>, Refusal> {
        let before = snapshot("size", "string", &[]);
        let mut real = before.tables();
        let table = real.get_mut("files").expect("a table");
        for name in added {
            table.columns.push(Column {
                name: (*name).to_owned(),
                kind: ColumnKind::String,
                optional: true,
                default: None,
            });
        }
        let stages = [
            Stage {
                snapshot: &before,
                migration: None,
            },
            Stage {
                snapshot: &migration.snapshot,
                migration: Some(migration),
            },
        ];
        let declared = &migration.snapshot;
        let mut names = names(1, &stages, (declared, functions), &real)?;
        Ok(names.tables.remove("files"))
    }

    #[test]
    fn a_field_of_another_type_is_in_two_columns_while_both_exist() {
        let after = snapshot("bytes", "integer", &["size"]);
        let record =
            |of: &TransformDesc| json!({ "name": of.name, "from": "", "to": "", "body": of.body });
        let migration: Migration = serde_json::from_value(json!({
            "format": 2, "seq": 2, "name": "bytes", "parent": null,
            "snapshotDigest": crate::canonical::digest_of(&after), "snapshot": after,
            "changes": [{
                "kind": "replaceField", "entity": "files", "field": "bytes", "from": "size",
                "transform": PARSE.name, "reverse": SHOW.name,
            }],
            "transforms": [record(&PARSE), record(&SHOW)],
        }))
        .expect("a migration");
        let all = |name: &str| [&PARSE, &SHOW].into_iter().find(|of| of.name == name);
        let added = ["bytes__next", "bytes__src"];

        let names = table_names(&migration, &added, &all).expect("both functions");
        let names = names.expect("other names");
        assert_eq!(names.columns["bytes"], "bytes__next");
        assert!(names.fillers.is_empty() && names.pending.is_empty());
        let replaced = &names.replaced["bytes"];
        assert_eq!((&*replaced.old, &*replaced.source), ("size", "bytes__src"));
        assert!(replaced.required && !replaced.optional);
        assert_eq!(replaced.forth.function.name, PARSE.name);
        assert_eq!(replaced.back.function.name, SHOW.name);

        // Until both columns are added, the field has only the earlier one.
        let names = table_names(&migration, &added[..1], &all).expect("no function");
        assert!(names.expect("other names").replaced.is_empty());

        let code = |functions: Functions<'_>| {
            let refused = table_names(&migration, &added, functions);
            refused.expect_err("a function is wrong").code
        };
        assert_eq!(code(&|_| None), "transform_missing");
        let changed = |name: &str| [&PARSE, &OTHER].into_iter().find(|of| of.name == name);
        assert_eq!(code(&changed), "transform_changed");
    }
}
