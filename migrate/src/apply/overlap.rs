//! Checks whether a migration may start while an earlier migration waits for its contract phase.

use linchpin_core::schema::{Action, Only};

use crate::data::DataAction;
use crate::step::{Step, Work};

/// The objects that a step changes: columns and indexes of a table; `None` for the whole table.
struct Touched<'s> {
    table: &'s str,
    objects: Option<Vec<&'s str>>,
}

/// Returns an object that both lists of steps change, for messages; `None` if there is none.
pub(super) fn shared<'s>(
    earlier: impl Iterator<Item = &'s Step>,
    later: &'s [Step],
) -> Option<String> {
    let later: Vec<Touched<'s>> = later.iter().flat_map(touched).collect();
    for one in earlier.flat_map(touched) {
        for two in later.iter().filter(|two| two.table == one.table) {
            match (&one.objects, &two.objects) {
                (Some(these), Some(those)) => {
                    if let Some(object) = these.iter().find(|object| those.contains(object)) {
                        return Some(format!("`{}.{object}`", one.table));
                    }
                }
                _ => return Some(format!("`{}`", one.table)),
            }
        }
    }
    None
}

fn touched(step: &Step) -> Vec<Touched<'_>> {
    let one = |table, objects| vec![Touched { table, objects }];
    match &step.work {
        Work::Schema(action) => touched_by_action(action),
        Work::Check { table, column } => one(table, Some(vec![column])),
        Work::Data(
            data @ (DataAction::Fill { column, .. } | DataAction::Transform { next: column, .. }),
        ) => {
            let mut objects = vec![column.name.as_str()];
            if let DataAction::Transform { from, source, .. } = data {
                objects.extend([from.name.as_str(), source.name.as_str()]);
            }
            one(data.table(), Some(objects))
        }
        // These actions read whole records.
        Work::Data(data) => one(data.table(), None),
    }
}

fn touched_by_action(action: &Action) -> Vec<Touched<'_>> {
    let whole = |table| Touched {
        table,
        objects: None,
    };
    let objects = |objects| {
        vec![Touched {
            table: action.table(),
            objects: Some(objects),
        }]
    };
    match action {
        Action::RenameTable { from, to } => vec![whole(from), whole(to)],
        Action::CreateTable { .. } | Action::DropTable { .. } | Action::Rebuild { .. } => {
            vec![whole(action.table())]
        }
        Action::CreateIndex { index, .. } => {
            let keys = index.keys.iter().map(|key| key.column.as_str());
            let only = index.only.iter().map(Only::column);
            objects(
                [index.name.as_str()]
                    .into_iter()
                    .chain(keys)
                    .chain(only)
                    .collect(),
            )
        }
        Action::RenameIndex { from, to, .. }
        | Action::RenameColumn { from, to, .. }
        | Action::RenameCheck { from, to, .. } => objects(vec![from, to]),
        Action::SwapColumn {
            old,
            next,
            source,
            name,
            ..
        } => objects(vec![old, next, source, name]),
        Action::AddCheck { check, .. } => objects(vec![&check.name, &check.column]),
        other => objects(other.object().into_iter().collect()),
    }
}
