//! Counts of what an engine cannot use: messages and keys that another program has written.

use metrics::counter;

/// What an engine cannot use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A message is longer than the engine carries. It is dropped before it is decoded.
    MessageTooLarge,
    /// A message is in no form that this version of the app knows. It is dropped.
    MessageUnreadable,
    /// A published frame is too long. It is read from its stream.
    FrameTooLarge,
    /// A published frame is in no form that this version of the app knows. It is read from its
    /// stream.
    FrameUnreadable,
    /// A key of the engine holds a value of another type or form. It is removed.
    KeyReplaced,
}

/// Counts a fault for the recorder of the crate `metrics`.
pub(crate) fn count(fault: Fault) {
    let reason = match fault {
        Fault::MessageTooLarge => "message_too_large",
        Fault::MessageUnreadable => "message_unreadable",
        Fault::FrameTooLarge => "frame_too_large",
        Fault::FrameUnreadable => "frame_unreadable",
        Fault::KeyReplaced => "key_replaced",
    };
    counter!("linchpin_realtime_engine_faults_total", "reason" => reason).increment(1);
}
