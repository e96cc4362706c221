//! Collects the rows that a store returns, as JSON or as values.

use std::sync::Arc;

pub use crate::row::Row;

use super::Recording;
use crate::entity::{EntityDesc, FieldDesc};
use crate::event::Entry;
use crate::{Value, ValueRef};

/// The fields of a record in a response, with the prepared JSON text before each value.
#[derive(Debug, Default)]
pub struct Projection {
    columns: Box<[Column]>,
}

#[derive(Debug)]
struct Column {
    field: usize,
    /// Whether the field is the primary key.
    id: bool,
    /// `{"id":` or `,"title":`
    key: Box<[u8]>,
}

impl Projection {
    /// The readable fields of an entity, in declaration order.
    pub fn readable(entity: &EntityDesc) -> Self {
        Self::of(entity, |_, field| field.readable())
    }

    /// The fields for which `keep` returns true.
    pub fn of(entity: &EntityDesc, keep: impl Fn(usize, &FieldDesc) -> bool) -> Self {
        let kept = entity
            .fields
            .iter()
            .enumerate()
            .filter(|(i, f)| keep(*i, f));
        let columns = kept
            .enumerate()
            .map(|(n, (field, desc))| Column {
                field,
                id: field == entity.primary,
                key: format!("{}\"{}\":", if n == 0 { '{' } else { ',' }, desc.wire)
                    .into_bytes()
                    .into(),
            })
            .collect();
        Self { columns }
    }

    /// Writes a row as a JSON object.
    pub fn write<R: Row + ?Sized>(&self, row: &R, out: &mut Vec<u8>) {
        if self.columns.is_empty() {
            out.push(b'{');
        }
        for column in &self.columns {
            out.extend_from_slice(&column.key);
            match row.value(column.field) {
                // Ids are strings in JSON, also for integer keys.
                ValueRef::Int(key) if column.id => {
                    out.push(b'"');
                    out.extend_from_slice(itoa::Buffer::new().format(key).as_bytes());
                    out.push(b'"');
                }
                value => crate::json::write_value(value, out),
            }
        }
        out.push(b'}');
    }
}

/// Collects the rows of one call.
///
/// It is a plain value, so a store can move it to another thread (such as its writer) and back.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    want: Want,
    /// The maximum number of rows. A row after the limit sets `more`.
    limit: Option<usize>,
    /// The fields of a cursor. Their values in the last row are kept.
    keys: Vec<usize>,
    /// Field of the version counter.
    version_field: Option<u32>,
    /// The number of rows.
    pub count: usize,
    /// Whether there is a row after the limit.
    pub more: bool,
    /// JSON objects separated by commas.
    pub json: Vec<u8>,
    /// Records as values.
    pub records: Vec<Box<[Value]>>,
    /// The key fields of the last row taken.
    pub last: Vec<Value>,
    /// The version of the last row taken.
    pub version: Option<i64>,
    /// Whether an upsert created the record.
    pub created: bool,
    /// The caller, for statements that can take long.
    pub caller: Option<std::num::NonZeroU64>,
    /// The notes of each row.
    pub notes: Option<Box<Notes>>,
    /// The events that the store writes with the statement.
    pub recording: Option<Box<Recording>>,
    /// All records that the statement wrote or removed, if the caller needs them.
    changed: Option<Box<ChangedRecords>>,
}

/// The records that a statement wrote or removed, in addition to its result.
#[derive(Clone, Debug)]
struct ChangedRecords {
    /// The number of values of a record.
    width: usize,
    records: Vec<Box<[Value]>>,
}

/// The notes of all rows: the values of some fields, in addition to the JSON.
#[derive(Clone, Debug)]
pub struct Notes {
    /// The noted fields.
    pub fields: Arc<[usize]>,
    /// One note per row.
    pub rows: Vec<Note>,
}

/// The note of a row: the values of some fields, in addition to the JSON.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// The end of the row in [`Rows::json`].
    pub end: usize,
    /// The values of the noted fields.
    pub values: Box<[Value]>,
}

/// The form in which rows are kept.
#[derive(Clone, Debug, Default)]
enum Want {
    /// Only the number of rows.
    #[default]
    Count,
    Json(Arc<Projection>),
    /// This number of values of each row.
    Records(usize),
}

impl Rows {
    /// Counts rows only.
    pub fn count() -> Self {
        Self::default()
    }

    /// Writes rows as JSON.
    pub fn json(projection: &Arc<Projection>) -> Self {
        Self {
            want: Want::Json(Arc::clone(projection)),
            json: Vec::with_capacity(512),
            ..Self::default()
        }
    }

    /// Keeps rows as values, one per field of the entity.
    pub fn records(entity: &EntityDesc) -> Self {
        Self {
            want: Want::Records(entity.fields.len()),
            ..Self::default()
        }
    }

    /// Keeps rows of `width` values that are not records.
    pub fn values(width: usize) -> Self {
        Self {
            want: Want::Records(width),
            ..Self::default()
        }
    }

    /// Keeps at most `limit` rows and the values of the fields `keys` in the last of them. It also
    /// records whether there is one more row.
    #[must_use]
    pub fn limit(mut self, limit: usize, keys: Vec<usize>) -> Self {
        self.limit = Some(limit);
        self.keys = keys;
        self
    }

    /// Keeps the values of these fields of each row, and the end of its JSON.
    #[must_use]
    pub fn noting(mut self, fields: Arc<[usize]>) -> Self {
        self.notes = Some(Box::new(Notes {
            fields,
            rows: Vec::new(),
        }));
        self
    }

    /// Returns the position of a noted field in [`Note::values`].
    pub fn noted_at(&self, field: usize) -> Option<usize> {
        self.notes.as_ref()?.fields.iter().position(|f| *f == field)
    }

    /// Returns the notes, one per row; empty if none were requested.
    pub fn noted(&self) -> &[Note] {
        self.notes.as_ref().map_or(&[], |notes| &notes.rows)
    }

    /// Keeps the version of the last row.
    #[must_use]
    pub fn version_of(mut self, entity: &EntityDesc) -> Self {
        // An entity has at most 200 fields.
        self.version_field = entity.version.map(|v| v.field as u32);
        self
    }

    /// Keeps each record that the statement writes or removes, in addition to its result.
    #[must_use]
    #[doc(hidden)]
    pub fn with_changed_records(mut self, entity: &EntityDesc) -> Self {
        self.changed = Some(Box::new(ChangedRecords {
            width: entity.fields.len(),
            records: Vec::new(),
        }));
        self
    }

    /// Returns the records kept by [`with_changed_records`](Self::with_changed_records).
    #[doc(hidden)]
    pub fn take_changed_records(&mut self) -> Vec<Box<[Value]>> {
        self.changed
            .take()
            .map(|changed| changed.records)
            .unwrap_or_default()
    }

    /// Removes the recording, for a statement that does not run.
    #[doc(hidden)]
    #[must_use]
    pub fn without_recording(self) -> Self {
        Self {
            recording: None,
            changed: None,
            ..self
        }
    }

    /// Whether only the number of rows is needed.
    pub fn only_counts(&self) -> bool {
        if self.changed.is_some()
            || self
                .recording
                .as_ref()
                .is_some_and(|recording| !recording.only_counts())
        {
            return false;
        }
        matches!(self.want, Want::Count) && self.version_field.is_none() && self.notes.is_none()
    }

    /// Whether the statement needs its own transaction, because its records are recorded or kept.
    pub fn is_recorded(&self) -> bool {
        self.recording.is_some() || self.changed.is_some()
    }

    /// Records a written row without adding it to the result. [`push`](Self::push) records its row
    /// too.
    pub fn record<R: Row + ?Sized>(&mut self, row: &R) {
        if let Some(recording) = &mut self.recording {
            recording.add(row);
        }
        if let Some(changed) = &mut self.changed {
            changed.records.push(
                (0..changed.width)
                    .map(|i| row.value(i).to_owned())
                    .collect(),
            );
        }
    }

    /// Returns the events of the statement. The store writes those with [`Entry::stored`] to its
    /// outbox. After the commit it passes all of them to [`Committed`](super::Committed). Call this
    /// after the last row, when `created` is set.
    pub fn entries(&mut self) -> Vec<Entry> {
        let (count, created) = (self.count, self.created);
        self.recording
            .as_mut()
            .map_or_else(Vec::new, |recording| recording.entries(count, created))
    }

    /// Adds a row. Returns `false` if no more rows are needed.
    pub fn push<R: Row + ?Sized>(&mut self, row: &R) -> bool {
        self.record(row);
        if self.limit == Some(self.count) {
            self.more = true;
            return false;
        }
        self.count += 1;
        match &self.want {
            Want::Count => {}
            Want::Json(projection) => {
                if self.count > 1 {
                    self.json.push(b',');
                }
                projection.write(row, &mut self.json);
            }
            Want::Records(fields) => {
                self.records
                    .push((0..*fields).map(|i| row.value(i).to_owned()).collect());
            }
        }
        if let Some(notes) = &mut self.notes {
            let values = notes
                .fields
                .iter()
                .map(|field| row.value(*field).to_owned())
                .collect();
            notes.rows.push(Note {
                end: self.json.len(),
                values,
            });
        }
        if self.limit == Some(self.count) {
            self.last = self.keys.iter().map(|k| row.value(*k).to_owned()).collect();
        }
        if let Some(field) = self.version_field {
            self.version = match row.value(field as usize) {
                ValueRef::Int(v) => Some(v),
                _ => None,
            };
        }
        true
    }
}
