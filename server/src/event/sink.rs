//! Consumers of events: the trait that they implement, and what they receive.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::EntityEvent;
use crate::entity::{EntityDesc, FieldSet};
use crate::{BoxFuture, Result};

/// A named consumer of the events of an app.
///
/// Events of one record come in commit order, and every event comes at least once. If an event
/// fails, or the program ends before the success was stored, the same event comes again with the
/// same id. A failure never changes a response and never delays another consumer.
///
/// An event that fails is tried again after 250 ms, 500 ms and so on, up to 60 s. Meanwhile later
/// events of the same record wait, and others are delivered. After 20 failures it is parked: the
/// store keeps it for 30 days in `linchpin_parked`, and an event `linchpin.outbox.dead` is emitted
/// for code that listens to it ([`EventBus::listen`](crate::EventBus::listen)).
///
/// One process at a time delivers to a consumer.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use linchpin::event::Batch;
/// use linchpin::{BoxFuture, EventSink, Result};
///
/// /// Counts events.
/// struct Counter(AtomicUsize);
///
/// impl EventSink for Counter {
///     fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
///         self.0.fetch_add(batch.len(), Ordering::Relaxed);
///         Box::pin(async { Ok(()) })
///     }
///
///     // The count begins anew with each start of the app.
///     fn is_live(&self) -> bool {
///         true
///     }
/// }
/// ```
pub trait EventSink: Send + Sync + 'static {
    /// Processes events in order. Success means that all of them are done.
    ///
    /// # Errors
    /// Any error. The events after [`Batch::done`] are delivered again later.
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>>;

    /// Called when events were lost, such as those that did not fit in memory. The default
    /// does nothing: the log has an error already.
    ///
    /// It is called at least once, and the sink gets no later events before the call succeeds. If
    /// the process ends first, the next process that delivers to the sink reports lost events of
    /// the outbox; for a live sink, the report is lost with the process.
    ///
    /// # Errors
    /// Any error. It is called again after a pause, at most a minute later.
    fn missed(&self, missed: Missed) -> BoxFuture<'_, Result<()>> {
        let _ = missed;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether the sink takes events of an entity. The default takes those of every entity.
    fn takes(&self, entity: &'static EntityDesc) -> bool {
        let _ = entity;
        true
    }

    /// The fields of an entity that conditions of the sink read, such as
    /// [`guard_fields`](super::guard_fields).
    ///
    /// Events have these fields in `after`, even if clients may not read them. An update that
    /// changes one of these fields also has all of them in `before`. The default is none.
    fn reads(&self, entity: &'static EntityDesc) -> FieldSet {
        let _ = entity;
        FieldSet::NONE
    }

    /// Whether the sink needs events only while this process runs. Events of an entity whose
    /// consumers are all live are not stored: they are handed over after the commit, and lost if
    /// the process ends. The default is `false`.
    fn is_live(&self) -> bool {
        false
    }

    /// Whether the sink stops at an event that fails, so that all events keep their order. Then the
    /// event is retried until it succeeds, with pauses of at most about a minute, and the readiness
    /// check answers `degraded`. The default is `false`.
    fn stops_at_failure(&self) -> bool {
        false
    }

    /// Whether the sink needs the key of every changed record, for example to keep a copy of the
    /// records.
    ///
    /// If so, events about many records list their [keys](EntityEvent::keys), split into several
    /// events when there are more than 500. The sink also gets events about expired records that
    /// the application removed; other consumers do not see these events.
    fn needs_records(&self) -> bool {
        false
    }

    /// Whether the sink needs the state of each record of an entity that a batch changes, for
    /// example to decide which callers may receive the event.
    ///
    /// If so, events about many records of the entity list their [keys](EntityEvent::keys), and have
    /// the fields of [`reads`](Self::reads) of each record in `after`, or in `before` if the records
    /// were removed. They are split into several events: each has 100 records at most, and 64 KiB
    /// of states.
    fn needs_states(&self, entity: &'static EntityDesc) -> bool {
        let _ = entity;
        false
    }

    /// The maximum size of a payload that the sink accepts, in bytes. An event with a larger
    /// payload has `payload_ref` instead. The default is 64 KiB; a larger maximum makes the outbox
    /// larger.
    fn largest_payload(&self) -> usize {
        EntityEvent::PAYLOAD
    }

    /// The maximum number of events of a [`Batch`], from 1 to 1,000; 100 by default. Large batches
    /// suit a sink whose cost is per batch. If an event fails, the other events of its batch may be
    /// delivered again.
    fn largest_batch(&self) -> usize {
        100
    }

    /// Whether this process delivers events to the sink. If not, another process delivers them, and
    /// this process checks again several times a second.
    ///
    /// The events are recorded in both cases.
    fn is_served_here(&self) -> bool {
        true
    }
}

/// Events for a consumer, in order.
///
/// It dereferences to a slice, and `for event in batch` yields the events. A sink that reports its
/// progress gets no event twice after a failure:
///
/// ```
/// # use linchpin::event::Batch;
/// # async fn send(_: &str) -> linchpin::Result<()> { Ok(()) }
/// # async fn publish(batch: &Batch) -> linchpin::Result<()> {
/// for (done, event) in batch.iter().enumerate() {
///     batch.done(done);
///     send(&event.payload.text()).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Batch {
    events: Vec<Arc<EntityEvent>>,
    fence: i64,
    /// The number of processed events; `usize::MAX` until the sink reports it.
    done: AtomicUsize,
}

impl Batch {
    /// Creates a batch, for tests of sinks.
    pub fn new(events: Vec<Arc<EntityEvent>>, fence: i64) -> Self {
        Self {
            events,
            fence,
            done: AtomicUsize::new(usize::MAX),
        }
    }

    /// The fencing number of the process that delivers. It grows each time another process takes
    /// over the consumer. A sink that writes to another system should refuse a write if its number
    /// is lower than a number that it has seen before: then a process that was paused cannot write
    /// late. The number is 0 for a live sink.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// Reports that the first `count` events are done. If the sink then fails, only the event after
    /// them has failed. A sink that never reports its progress gets the events of a failed batch
    /// one by one.
    pub fn done(&self, count: usize) {
        self.done.store(count, Ordering::Release);
    }

    /// The number of events that are done, if the sink has reported it and some are not done.
    pub fn progress(&self) -> Option<usize> {
        let done = self.done.load(Ordering::Acquire);
        (done < self.events.len()).then_some(done)
    }
}

impl Deref for Batch {
    type Target = [Arc<EntityEvent>];

    fn deref(&self) -> &Self::Target {
        &self.events
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Arc<EntityEvent>;
    type IntoIter = std::slice::Iter<'a, Arc<EntityEvent>>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.iter()
    }
}

/// Events that a consumer never gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// The minimum number of lost events, or of lost rows of the outbox.
    pub count: u64,
    /// The cause, for the log.
    pub cause: &'static str,
}

impl Missed {
    /// Creates a notice, for tests of sinks.
    pub fn new(count: u64, cause: &'static str) -> Self {
        Self { count, cause }
    }
}
