//! Splits an event about many records into one event for each record.

use linchpin::EntityEvent;
use linchpin::event::{Payload, RecordRef};
use serde_json::Value;

/// Returns one event for each record of an event about many records. Returns `None` if the event
/// does not contain the states of the records.
///
/// The returned events have no payload: clients read the records that they want to show.
pub(super) fn split_by_record(event: &EntityEvent) -> Option<Vec<EntityEvent>> {
    let states =
        |payload: Option<&'_ Payload>| payload.and_then(|states| states.as_array()).cloned();
    let (before, after) = (states(event.before.as_ref()), states(event.after.as_ref()));
    let known = after.as_ref().or(before.as_ref())?;
    if event.keys.is_empty() || known.len() != event.keys.len() {
        return None;
    }
    let template = EntityEvent {
        payload: Payload::from(Value::Null),
        before: None,
        after: None,
        keys: Vec::new(),
        ..event.clone()
    };
    let state = |states: &Option<Vec<Value>>, at: usize| {
        let state = states.as_ref()?.get(at)?;
        state.is_object().then(|| Payload::from(state.clone()))
    };
    let each = event.keys.iter().enumerate().map(|(at, key)| EntityEvent {
        record_id: Some(key.clone()),
        payload_ref: Some(RecordRef {
            entity: template.entity.clone(),
            id: key.clone(),
        }),
        before: state(&before, at),
        after: state(&after, at),
        ..template.clone()
    });
    Some(each.collect())
}
