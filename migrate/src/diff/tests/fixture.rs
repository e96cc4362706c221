//! Declarations for tests, as data.

use linchpin_core::Value;
use linchpin_core::entity::{
    DefaultDesc, EntityDesc, EnumDesc, FieldDesc, Kind, SourceLine, TransformDesc, TransformError,
    TransformFrom, TransformInput, TransformType,
};
use linchpin_core::schema::Snapshot;

use crate::change::Change;
use crate::diff::{Diff, diff, diff_after};
use crate::error::{Exit, Refusal};

/// A field with its name as wire name and column.
pub(crate) const fn field(name: &'static str, kind: Kind) -> FieldDesc {
    FieldDesc::new(name, name, name, kind, false)
}

/// The same field, but optional.
pub(crate) const fn optional(field: FieldDesc) -> FieldDesc {
    FieldDesc {
        optional: true,
        ..field
    }
}

/// The same field with this source line.
pub(crate) const fn line(line: u32, field: FieldDesc) -> FieldDesc {
    FieldDesc { line, ..field }
}

/// An enum field.
pub(crate) fn choice(name: &'static str, values: &[&'static str]) -> FieldDesc {
    field(
        name,
        Kind::Enum(leak(EnumDesc {
            name: "Choice",
            variants: leaked(values),
        })),
    )
}

/// The entity `Task` with the table `tasks`, a text as primary key, and these further fields.
pub(crate) fn task(fields: &[FieldDesc]) -> EntityDesc {
    entity("Task", "tasks", fields)
}

/// An entity with a text as primary key and these further fields.
pub(crate) fn entity(
    name: &'static str,
    storage: &'static str,
    fields: &[FieldDesc],
) -> EntityDesc {
    let mut all = vec![FieldDesc {
        default: DefaultDesc::Uuid,
        line: 11,
        ..field("id", Kind::String)
    }];
    all.extend(fields);
    EntityDesc {
        at: SourceLine {
            file: "src/tasks.rs",
            line: 10,
        },
        ..EntityDesc::new(name, storage, storage, leaked(&all))
    }
}

pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub(crate) fn leaked<T: Clone>(list: &[T]) -> &'static [T] {
    Vec::leak(list.to_vec())
}

/// A transform for comparisons; no test runs it.
pub(crate) fn transform(from: TransformFrom, to: TransformType) -> &'static TransformDesc {
    fn run(_: TransformInput<'_>) -> Result<Value, TransformError> {
        Err("not run".into())
    }
    leak(TransformDesc {
        name: "tasks::convert",
        from,
        to,
        body: "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f",
        reverse: None,
        run,
        at: SourceLine {
            file: "src/tasks.rs",
            line: 99,
        },
    })
}

pub(crate) const fn transform_type(kind: Kind, optional: bool) -> TransformType {
    TransformType { kind, optional }
}

/// The snapshot of the first migration of these declarations.
pub(crate) fn recorded(declared: &[&EntityDesc]) -> Snapshot {
    diff(&Snapshot::empty(), declared).unwrap().snapshot
}

/// Compares two versions of declarations.
pub(crate) fn between(before: &[&EntityDesc], after: &[&EntityDesc]) -> Diff {
    diff(&recorded(before), after).unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

/// One line for each change: its kind and its names, such as `addField tasks size`.
pub(crate) fn kinds(diff: &Diff) -> Vec<String> {
    diff.changes.iter().map(change_line).collect()
}

fn change_line(change: &Change) -> String {
    let json = crate::canonical::json_of(change);
    let text = |key: &str| json.get(key).and_then(|value| value.as_str());
    let mut words = vec![text("kind").unwrap().to_owned()];
    for key in ["entity", "field", "index", "of", "target"] {
        words.extend(text(key).map(str::to_owned));
    }
    words.extend(text("from").map(|from| format!("from {from}")));
    words.extend(text("transform").map(|name| format!("by {name}")));
    words.extend(json.get("values").map(ToString::to_string));
    words.join(" ")
}

/// The text of a refusal, as a command prints it without colours.
pub(crate) fn refused(before: &[&EntityDesc], after: &[&EntityDesc]) -> String {
    let refusal = diff_after("3 `add_x`", &recorded(before), after).unwrap_err();
    assert_eq!(refusal.exit, Exit::Planning);
    let Refusal {
        code,
        message,
        facts,
        ..
    } = &refusal;
    let mut text = format!("{code}: {message}");
    for fact in facts {
        let at = fact.at.as_deref().unwrap_or("nowhere");
        text.push_str(&format!("\n  {} {} ({at})", fact.code, fact.text));
    }
    text
}
