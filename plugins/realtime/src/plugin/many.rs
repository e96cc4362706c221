//! Events about many records, as one event for each record.

use linchpin::EntityEvent;
use linchpin::event::{Payload, RecordRef};
use serde_json::Value;

/// The events of the records of an event about many; `None` if it does not have their states.
///
/// They have no payload: clients read a record that they want to show.
pub(super) fn records(event: &EntityEvent) -> Option<Vec<EntityEvent>> {
    let states = |of: Option<&'_ Payload>| of.and_then(|states| states.as_array()).cloned();
    let (before, after) = (states(event.before.as_ref()), states(event.after.as_ref()));
    let known = after.as_ref().or(before.as_ref())?;
    if event.keys.is_empty() || known.len() != event.keys.len() {
        return None;
    }
    let one = EntityEvent {
        payload: Payload::from(Value::Null),
        before: None,
        after: None,
        keys: Vec::new(),
        ..event.clone()
    };
    let state = |of: &Option<Vec<Value>>, at: usize| {
        let state = of.as_ref()?.get(at)?;
        state.is_object().then(|| Payload::from(state.clone()))
    };
    let each = event.keys.iter().enumerate().map(|(at, key)| EntityEvent {
        record_id: Some(key.clone()),
        payload_ref: Some(RecordRef {
            entity: one.entity.clone(),
            id: key.clone(),
        }),
        before: state(&before, at),
        after: state(&after, at),
        ..one.clone()
    });
    Some(each.collect())
}
