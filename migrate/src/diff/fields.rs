//! The changes of fields.

use linchpin_core::schema::FieldSnapshot;

use super::declared::Declared;
use super::renames::Origin;
use super::{Differ, Pair};
use crate::canonical::{canonical, json_of};
use crate::change::Change;

impl Differ<'_> {
    /// Refuses a change of the primary key. A primary key may have a new name.
    pub(super) fn primary(&mut self, one: &Declared<'_>, pair: &Pair<'_>) {
        let (old, new) = (pair.old, pair.new);
        let kind = |fields: &std::collections::BTreeMap<String, FieldSnapshot>, name: &str| {
            fields.get(name).map(|field| field.kind.clone())
        };
        let kept = pair.name(&old.primary) == Some(new.primary.as_str())
            && kind(&old.fields, &old.primary) == kind(&new.fields, &new.primary);
        if !kept {
            let message = format!(
                "primary key of `{}` changes; create a new entity and copy",
                new.name
            );
            let place = (new.name.as_str(), Some(new.primary.as_str()));
            let at = one.place(Some(&new.primary));
            self.problems.add("primary_change", message, place, at);
        }
    }

    /// Adds the changes of one declared field.
    pub(super) fn field(
        &mut self,
        one: &Declared<'_>,
        pair: &Pair<'_>,
        name: &str,
        origin: &Origin,
    ) {
        let Some(new) = pair.new.fields.get(name) else {
            return;
        };
        let entity = || pair.new.storage_name.clone();
        let field = || name.to_owned();
        if *origin == Origin::Wrong {
            return;
        }
        let Some(old) = origin.old(name).and_then(|old| pair.old.fields.get(old)) else {
            self.added(one, name, new);
            return;
        };
        let renamed = match origin {
            Origin::Renamed(from) => Some(from.clone()),
            _ => None,
        };
        // `primary` reports this error.
        if name == pair.new.primary && old.kind != new.kind {
            return;
        }
        if old.kind != new.kind || old.item != new.item {
            let (transform, reverse) = self.converts(one, name, old, new);
            self.changes.push(match renamed {
                Some(from) => Change::ReplaceField {
                    entity: entity(),
                    field: field(),
                    from,
                    transform,
                    reverse,
                },
                None => Change::ChangeType {
                    entity: entity(),
                    field: field(),
                    transform,
                    reverse,
                },
            });
            return;
        }
        if let Some(from) = renamed {
            self.changes.push(Change::RenameField {
                entity: entity(),
                field: field(),
                from,
            });
        } else if old.column != new.column {
            self.changes.push(Change::ChangeColumn {
                entity: entity(),
                field: field(),
            });
        }
        match (old.optional, new.optional) {
            (false, true) => self.changes.push(Change::MakeOptional {
                entity: entity(),
                field: field(),
            }),
            (true, false) => {
                let transform = self.fills(one, name, new);
                self.changes.push(Change::MakeRequired {
                    entity: entity(),
                    field: field(),
                    transform,
                });
            }
            _ => {}
        }
        if canonical(&json_of(&old.default)) != canonical(&json_of(&new.default)) {
            self.changes.push(Change::ChangeDefault {
                entity: entity(),
                field: field(),
            });
        }
        let missing = |from: &FieldSnapshot, to: &FieldSnapshot| -> Vec<String> {
            let known = to.values.as_deref().unwrap_or_default();
            let all = from.values.iter().flatten();
            all.filter(|value| !known.contains(value))
                .cloned()
                .collect()
        };
        let (added, removed) = (missing(new, old), missing(old, new));
        if !added.is_empty() {
            self.changes.push(Change::WidenEnum {
                entity: entity(),
                field: field(),
                values: added,
            });
        }
        if !removed.is_empty() {
            self.changes.push(Change::NarrowEnum {
                entity: entity(),
                field: field(),
                values: removed,
            });
        }
        self.recomputed(pair, name, old, new);
    }

    /// Adds a change if the function of a computed field differs. Inputs are compared by their new
    /// names.
    fn recomputed(
        &mut self,
        pair: &Pair<'_>,
        name: &str,
        old: &FieldSnapshot,
        new: &FieldSnapshot,
    ) {
        let Some(now) = &new.computed else { return };
        let equal = old.computed.as_ref().is_some_and(|before| {
            let mut inputs: Vec<Option<&str>> =
                before.inputs.iter().map(|input| pair.name(input)).collect();
            inputs.sort_unstable();
            let same = inputs
                .into_iter()
                .eq(now.inputs.iter().map(|i| Some(i.as_str())));
            same && before.body == now.body
        });
        if !equal {
            self.changes.push(Change::Recompute {
                entity: pair.new.storage_name.clone(),
                field: name.to_owned(),
            });
        }
    }

    /// Adds a new field of an entity that may have records.
    fn added(&mut self, one: &Declared<'_>, name: &str, new: &FieldSnapshot) {
        let facts = &one.snapshot;
        let transform = self.fills(one, name, new);
        // The store fills the version counter and the hidden expiry date.
        let hidden = facts.version.as_ref().is_some_and(|v| v.field == name)
            || facts
                .ttl
                .as_ref()
                .is_some_and(|ttl| ttl.after.is_some() && ttl.field == name);
        let has_value =
            new.optional || new.default.is_some() || new.computed.is_some() || transform.is_some();
        if self.strict && !has_value && !hidden {
            let message = format!(
                "required field `{name}` is added to existing records; give a default, a fill \
                 transform, or make it optional"
            );
            let place = (facts.name.as_str(), Some(name));
            let at = one.place(Some(name));
            self.problems
                .add("required_needs_value", message, place, at);
        }
        self.changes.push(Change::AddField {
            entity: facts.storage_name.clone(),
            field: name.to_owned(),
            transform,
        });
    }
}
