//! Counters of messages and keys that the engine cannot use. Another program, or another version of
//! the app, has written them.

use metrics::counter;

/// A reason why an engine cannot use a message or a key.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(any(feature = "nats", feature = "redis")), allow(dead_code))] // other engines find fewer
pub(crate) enum Fault {
    /// A message is longer than the limit of the engine. It is dropped before it is decoded.
    MessageTooLarge,
    /// A message has a form that this version of the app does not know. It is dropped.
    MessageUnreadable,
    /// A published frame is too long. The engine reads it from its stream instead.
    FrameTooLarge,
    /// A published frame has a form that this version of the app does not know. The engine reads it
    /// from its stream instead.
    FrameUnreadable,
    /// An entry of a stream has a form that this version of the app does not know. It is skipped.
    EntryUnreadable,
    /// A key of the engine holds a value of another type or form. It is removed.
    KeyReplaced,
}

/// Counts a fault for the recorder of the crate `metrics`.
pub(crate) fn count(fault: Fault) {
    count_many(fault, 1);
}

/// Counts several faults of one kind.
pub(crate) fn count_many(fault: Fault, number: u64) {
    let reason = match fault {
        Fault::MessageTooLarge => "message_too_large",
        Fault::MessageUnreadable => "message_unreadable",
        Fault::FrameTooLarge => "frame_too_large",
        Fault::FrameUnreadable => "frame_unreadable",
        Fault::EntryUnreadable => "entry_unreadable",
        Fault::KeyReplaced => "key_replaced",
    };
    counter!("linchpin_realtime_engine_faults_total", "reason" => reason).increment(number);
}
