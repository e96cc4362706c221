//! States that are the start of a transition but never a result. This is a start-up warning,
//! because code of the app can write any state.

use std::collections::BTreeMap;

use crate::entity::{DefaultDesc, EntityDesc, Flags};
use crate::filter::SourceSpec;
use crate::operation::OpSpec;
use crate::{EntityEntry, Package, Value};

/// One warning for each transition that starts from unreachable states.
pub(super) fn unreachable(packages: &[&'static Package]) -> Vec<String> {
    packages
        .iter()
        .flat_map(|package| package.entities)
        .flat_map(of_entity)
        .collect()
}

fn of_entity(entry: &EntityEntry) -> Vec<String> {
    let mut fields: BTreeMap<usize, Vec<&OpSpec>> = BTreeMap::new();
    for spec in entry.operations {
        if let Some(transition) = spec.kind.transition() {
            fields.entry(transition.field).or_default().push(spec);
        }
    }
    let declared_code =
        !entry.routes.is_empty() || entry.operations.iter().any(|spec| spec.kind.runs_code());
    if declared_code {
        // Functions of the app may write any value.
        return Vec::new();
    }
    fields
        .into_iter()
        .flat_map(|(field, transitions)| of_field(entry, field, &transitions))
        .collect()
}

fn of_field(entry: &EntityEntry, field: usize, transitions: &[&OpSpec]) -> Vec<String> {
    let Some(mut reached) = initial_values(entry, field) else {
        return Vec::new();
    };
    loop {
        let before = reached.len();
        for transition in transitions.iter().filter_map(|spec| spec.kind.transition()) {
            if transition.from.iter().any(|from| reached.contains(&from())) {
                for to in transition.to.iter().map(|to| to()) {
                    if !reached.contains(&to) {
                        reached.push(to);
                    }
                }
            }
        }
        if reached.len() == before {
            break;
        }
    }
    let warnings = transitions.iter().filter_map(|spec| {
        let from = spec.kind.transition()?.from.iter().map(|from| from());
        let unreachable_states: Vec<String> = from
            .filter(|from| !reached.contains(from))
            .map(|from| format!("`{}`", display(&from)))
            .collect();
        (!unreachable_states.is_empty()).then(|| {
            let EntityDesc { name, fields, .. } = entry.desc;
            let unreachable_states = unreachable_states.join(", ");
            let (state, operation) = (fields[field].name, spec.name);
            format!(
                "transition `{operation}` of `{name}` starts from {unreachable_states}, but no declared write sets `{state}` to that value: no default, route, \
                 transition or other write ({})",
                spec.at
            )
        })
    });
    warnings.collect()
}

/// The values that a field has before any transition; `None` if it may have any value.
fn initial_values(entry: &EntityEntry, field: usize) -> Option<Vec<Value>> {
    let of = &entry.desc.fields[field];
    if !of.flags.has(Flags::READ_ONLY.or(Flags::PRIVATE)) {
        // Clients write the field.
        return None;
    }
    let mut values = match of.default {
        DefaultDesc::Literal(value) => vec![value()],
        DefaultDesc::None if of.optional => vec![Value::Null],
        _ => return None,
    };
    let others = entry
        .operations
        .iter()
        .flat_map(|spec| std::iter::once(spec).chain(spec.parts));
    for spec in others.filter(|spec| spec.kind.touches(entry.desc).has(field)) {
        if spec
            .kind
            .transition()
            .is_some_and(|transition| transition.field == field)
        {
            continue;
        }
        match spec.kind.writes(field) {
            Some(SourceSpec::Literal(value)) => values.push(value()),
            _ => return None,
        }
    }
    Some(values)
}

fn display(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Text(value) => value.clone(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use linchpin_macros::{FieldEnum, entity, operation, package};

    use crate::{Operation, Package};

    #[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
    enum Status {
        Draft,
        Review,
        Published,
        Archived,
    }

    #[entity(routes(auth = none))]
    struct Post {
        #[field(primary, default = uuid)]
        id: String,
        #[field(default = Status::Draft, read_only)]
        status: Status,
        #[field(default = Status::Draft)]
        open: Status,
        #[field(read_only)]
        step: Option<i64>,
    }

    #[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published)]
    const PUBLISH: Operation<Post>;
    #[operation(kind = "transition", field = status, from = [Status::Review, Status::Published], to = Status::Archived)]
    const ARCHIVE: Operation<Post>;
    #[operation(kind = "transition", field = status, from = Status::Review, to = Status::Draft)]
    const REFUSE: Operation<Post>;
    #[operation(kind = "transition", field = status, from = Status::Archived, to = Status::Review)]
    const REOPEN: Operation<Post>;
    #[operation(kind = "batch", action = "update", filter = (open == Status::Draft), set(status = Status::Review))]
    const REVIEW_ALL: Operation<Post>;
    #[operation(kind = "transition", field = open, from = Status::Review, to = Status::Draft)]
    const CLOSE: Operation<Post>;
    #[operation(kind = "transition", field = step, from = 7, to = 8)]
    const STEP: Operation<Post>;

    fn warning(package: &'static Package) -> Vec<String> {
        super::unreachable(&[package])
            .iter()
            .map(|text| {
                text.split(", but no declared")
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn unreachable_states_are_reported() {
        static LOST: Package = package!(
            name = "lost",
            entities = [entity(Post, [PUBLISH, ARCHIVE, REFUSE, CLOSE, STEP])]
        );
        assert_eq!(
            warning(&LOST),
            [
                "transition `archive` of `Post` starts from `review`",
                "transition `refuse` of `Post` starts from `review`",
                "transition `step` of `Post` starts from `7`",
            ]
        );
    }

    #[test]
    fn reachable_states_are_not_reported() {
        static AROUND: Package = package!(
            name = "around",
            entities = [entity(Post, [PUBLISH, ARCHIVE, REFUSE, REOPEN, CLOSE])]
        );
        static WRITTEN: Package = package!(
            name = "written",
            entities = [entity(Post, [PUBLISH, ARCHIVE, REFUSE, REVIEW_ALL])]
        );
        assert_eq!(warning(&AROUND), [""; 0]);
        assert_eq!(warning(&WRITTEN), [""; 0]);
    }

    #[linchpin_macros::route(entity = Post, method = "GET", path = "all.txt", auth = none)]
    async fn all() -> String {
        String::new()
    }

    /// A function of the app may write any state.
    #[test]
    fn states_are_not_reported_if_a_function_writes_them() {
        static CODE: Package = package!(name = "code", entities = [entity(Post, [REFUSE, all])]);
        assert_eq!(warning(&CODE), [""; 0]);
    }
}
