//! Finds the recorded field or entity for each declared field or entity, also after a rename.

use std::collections::BTreeMap;

use linchpin_core::suggest::did_you_mean;

use super::Differ;
use super::declared::Declared;

/// The recorded object that a declared one corresponds to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// No recorded object: the declared one is new.
    New,
    /// The object with the same name.
    Kept,
    /// The object with this name.
    Renamed(String),
    /// Unknown, because of an error that was reported.
    Wrong,
}

impl Origin {
    /// The recorded name of the object that is called `name` now.
    pub(super) fn old<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match self {
            Self::New | Self::Wrong => None,
            Self::Kept => Some(name),
            Self::Renamed(from) => Some(from),
        }
    }
}

/// A declared field or entity.
struct Name<'a> {
    name: &'a str,
    rename_from: &'a [String],
}

/// An error of one name: its code, its message and the position of the name in the list.
type Wrong = (&'static str, String, usize);

/// The recorded names, with the former names of each.
type Recorded<'a> = BTreeMap<&'a str, &'a [String]>;

/// The names to compare: those of all entities, or of all fields of an entity.
struct NameTable<'a> {
    /// The kind of the names: "field" or "entity".
    noun: &'static str,
    /// The name of the previous snapshot in messages: "the previous snapshot (3 `add_x`)".
    source: &'a str,
    recorded: Recorded<'a>,
    declared: Vec<Name<'a>>,
    /// Whether a name with an unrecorded `rename_from` is a new name. Otherwise, the name is an
    /// error.
    may_be_new: bool,
    /// Whether the declarations themselves are compared. A snapshot of them causes no errors.
    strict: bool,
}

/// The result of a comparison of names.
#[derive(Default)]
struct Comparison {
    origins: Vec<Origin>,
    wrong: Vec<Wrong>,
    /// Renames of earlier migrations: the new and the old name.
    applied: Vec<(String, String)>,
    /// Names that are new although they have `rename_from`, with a suggestion.
    unrecorded_sources: Vec<(String, String)>,
}

impl NameTable<'_> {
    fn compare(&self) -> Comparison {
        let mut comparison = Comparison::default();
        let mut claims: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, one) in self.declared.iter().enumerate() {
            for name in one.rename_from {
                claims.entry(name).or_default().push(at);
            }
        }
        let mut claimed = vec![false; self.declared.len()];
        for (name, by) in claims.iter().filter(|(_, by)| self.strict && by.len() > 1) {
            let names: Vec<String> = by
                .iter()
                .map(|at| format!("`{}`", self.declared[*at].name))
                .collect();
            let message = format!("`{name}` is the `rename_from` of {}", names.join(" and "));
            comparison
                .wrong
                .push(("rename_claimed_twice", message, by[0]));
            for at in by {
                claimed[*at] = true;
            }
        }
        for (at, one) in self.declared.iter().enumerate() {
            let origin = if claimed[at] {
                Origin::Wrong
            } else {
                self.origin(at, one, &mut comparison)
            };
            comparison.origins.push(origin);
        }
        comparison
    }

    fn is_declared(&self, name: &str) -> bool {
        self.declared.iter().any(|one| one.name == name)
    }

    /// Finds the recorded object of one name. Adds errors and renames to the comparison.
    fn origin(&self, at: usize, one: &Name<'_>, comparison: &mut Comparison) -> Origin {
        let noun = self.noun;
        let source = one
            .rename_from
            .iter()
            .find(|name| self.recorded.contains_key(name.as_str()));
        if let Some(former) = self.recorded.get(one.name) {
            let applied = one.rename_from.iter().find(|name| former.contains(name));
            match (applied, source) {
                (Some(from), _) => comparison.applied.push((one.name.to_owned(), from.clone())),
                (None, Some(source)) if self.strict => {
                    comparison
                        .wrong
                        .push(self.already_recorded(at, one, source));
                    return Origin::Wrong;
                }
                // `rename_from` names an object from before the first migration.
                _ => {}
            }
            return Origin::Kept;
        }
        match source {
            Some(source) if self.is_declared(source) => {
                if !self.strict {
                    return Origin::New;
                }
                let message = format!(
                    "{noun} `{}` is renamed from `{source}`, but `{source}` is still declared",
                    one.name
                );
                comparison
                    .wrong
                    .push(("rename_source_declared", message, at));
                Origin::Wrong
            }
            Some(source) => Origin::Renamed(source.clone()),
            None if one.rename_from.is_empty() || !self.strict => Origin::New,
            None => {
                let written = one.rename_from.join("` or `");
                let known = self.recorded.keys().copied();
                let near = one
                    .rename_from
                    .iter()
                    .map(|name| did_you_mean(name, known.clone()))
                    .find(|text| !text.is_empty())
                    .unwrap_or_default();
                if self.may_be_new {
                    let text = format!("`{written}`, which {} does not have{near}", self.source);
                    comparison
                        .unrecorded_sources
                        .push((one.name.to_owned(), text));
                    return Origin::New;
                }
                let has: Vec<String> = known.map(|name| format!("`{name}`")).collect();
                let message = format!(
                    "{noun} `{}` is renamed from `{written}`, which {} does not have; it has: {}\
                     {near}",
                    one.name,
                    self.source,
                    has.join(", ")
                );
                comparison
                    .wrong
                    .push(("rename_source_missing", message, at));
                Origin::Wrong
            }
        }
    }

    /// The error for a new name that is already recorded and was not renamed from the source.
    fn already_recorded(&self, at: usize, one: &Name<'_>, source: &str) -> Wrong {
        let noun = self.noun;
        let other = self.declared.iter().find(|other| other.name == source);
        let swapped =
            other.is_some_and(|other| other.rename_from.iter().any(|name| name == one.name));
        if swapped {
            let message = format!(
                "{noun} `{}` is renamed from `{source}`, but `{source}` is still declared",
                one.name
            );
            return ("rename_source_declared", message, at);
        }
        let message = format!(
            "{noun} `{}` already exists in the previous snapshot and did not come from `{source}`",
            one.name
        );
        ("rename_target_exists", message, at)
    }
}

/// The former names of an object after this migration, oldest first.
fn former(origin: &Origin, recorded: &[String], rename_from: &[String]) -> Vec<String> {
    match origin {
        // A `rename_from` that was never applied is recorded, so that later migrations accept it.
        Origin::New | Origin::Wrong => rename_from.iter().rev().cloned().collect(),
        Origin::Kept => recorded.to_vec(),
        Origin::Renamed(from) => recorded.iter().chain([from]).cloned().collect(),
    }
}

impl Differ<'_> {
    /// Finds the recorded form of each entity.
    pub(super) fn entities(&mut self, declared: &[Declared<'_>]) -> Vec<Origin> {
        let table = NameTable {
            noun: "entity",
            source: &self.source,
            recorded: self
                .previous
                .entities
                .iter()
                .map(|(name, entity)| (name.as_str(), entity.former_names.as_slice()))
                .collect(),
            declared: declared
                .iter()
                .map(|one| Name {
                    name: &one.snapshot.storage_name,
                    rename_from: &one.rename_from,
                })
                .collect(),
            may_be_new: true,
            strict: self.strict,
        };
        let comparison = table.compare();
        for (code, message, at) in comparison.wrong {
            let one = &declared[at];
            self.problems
                .add(code, message, (&one.snapshot.name, None), one.place(None));
        }
        for (name, from) in comparison.applied {
            self.applied.push(format!("`{name}` from `{from}`"));
        }
        for (name, from) in comparison.unrecorded_sources {
            self.notes.push(format!(
                "entity `{name}` is created, because its `rename_from` names {from}"
            ));
        }
        comparison.origins
    }

    /// Finds the recorded form of each field of an entity, and sets all former names.
    pub(super) fn fields(
        &mut self,
        one: &mut Declared<'_>,
        old: Option<&linchpin_core::schema::EntitySnapshot>,
    ) -> BTreeMap<String, Origin> {
        let table = NameTable {
            noun: "field",
            source: &self.source,
            recorded: old
                .iter()
                .flat_map(|old| &old.fields)
                .map(|(name, field)| (name.as_str(), field.former_names.as_slice()))
                .collect(),
            declared: one
                .fields
                .iter()
                .map(|(name, field)| Name {
                    name,
                    rename_from: &field.rename_from,
                })
                .collect(),
            may_be_new: old.is_none(),
            strict: self.strict,
        };
        let comparison = table.compare();
        let names: Vec<String> = one.fields.keys().cloned().collect();
        for (code, message, at) in comparison.wrong {
            let place = (one.snapshot.name.as_str(), Some(names[at].as_str()));
            let at = one.place(Some(&names[at]));
            self.problems.add(code, message, place, at);
        }
        for (name, from) in comparison.applied {
            let entity = &one.snapshot.storage_name;
            self.applied
                .push(format!("`{entity}.{name}` from `{from}`"));
        }
        for (name, origin) in names.iter().zip(&comparison.origins) {
            let Some(field) = one.snapshot.fields.get_mut(name) else {
                continue;
            };
            let recorded = old
                .and_then(|old| old.fields.get(origin.old(name)?))
                .map_or(&[][..], |field| &field.former_names);
            field.former_names = former(origin, recorded, &one.fields[name].rename_from);
        }
        let entity = old.map_or(&[][..], |old| &old.former_names);
        let origin = match old {
            None => Origin::New,
            Some(old) if old.storage_name == one.snapshot.storage_name => Origin::Kept,
            Some(old) => Origin::Renamed(old.storage_name.clone()),
        };
        one.snapshot.former_names = former(&origin, entity, &one.rename_from);
        names.into_iter().zip(comparison.origins).collect()
    }
}
