//! The declarations in the form that the comparison needs.

use std::collections::BTreeMap;

use linchpin_core::entity::{EntityDesc, TransformDesc};
use linchpin_core::schema::EntitySnapshot;

/// A declared entity.
pub(super) struct Declared<'d> {
    /// Its snapshot. The comparison adds the former names.
    pub(super) snapshot: EntitySnapshot,
    /// The former names, newest first.
    pub(super) rename_from: Vec<String>,
    /// The source line.
    pub(super) at: Option<String>,
    /// The migration options of the fields, by field name.
    pub(super) fields: BTreeMap<String, DeclaredField<'d>>,
}

/// The migration options of a field.
#[derive(Default)]
pub(super) struct DeclaredField<'d> {
    /// The former names, newest first.
    pub(super) rename_from: Vec<String>,
    /// The function that converts or fills values.
    pub(super) transform: Option<&'d TransformDesc>,
    /// The source line.
    pub(super) at: Option<String>,
}

impl<'d> Declared<'d> {
    pub(super) fn of(desc: &'d EntityDesc) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let at = |line| (!desc.at.file.is_empty()).then(|| format!("{}:{line}", desc.at.file));
        let fields = desc.fields.iter().map(|field| {
            let declared = DeclaredField {
                rename_from: owned(field.rename_from),
                transform: field.transform,
                at: at(if field.line == 0 {
                    desc.at.line
                } else {
                    field.line
                }),
            };
            (field.name.to_owned(), declared)
        });
        Self {
            snapshot: EntitySnapshot::of(desc),
            rename_from: owned(desc.rename_from),
            at: at(desc.at.line),
            fields: fields.collect(),
        }
    }

    /// An entity of a recorded snapshot. Its former names are used as `rename_from`.
    pub(super) fn recorded(snapshot: &EntitySnapshot) -> Self {
        let reversed = |names: &[String]| names.iter().rev().cloned().collect();
        let fields = snapshot.fields.iter().map(|(name, field)| {
            let declared = DeclaredField {
                rename_from: reversed(&field.former_names),
                ..DeclaredField::default()
            };
            (name.clone(), declared)
        });
        Self {
            snapshot: snapshot.clone(),
            rename_from: reversed(&snapshot.former_names),
            at: None,
            fields: fields.collect(),
        }
    }

    /// The source line of a field, or of the entity without a field.
    pub(super) fn place(&self, field: Option<&str>) -> Option<String> {
        let field = field.and_then(|field| self.fields.get(field));
        field.map_or_else(|| self.at.clone(), |field| field.at.clone())
    }
}
