//! One request to a push service, and what follows from its answer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use linchpin::{FieldEnum, Result, Timestamp};
use linchpin_safe_client::{Failure, Outgoing, Reply, SafeClient};
use linchpin_worker::{later, spread};
use parking_lot::Mutex;

use crate::config::PushConfig;
use crate::crypto::{Receiver, Tokens, encrypt};
use crate::entity::{DeliveryReason, PushDelivery, PushSubscription};
use crate::metrics;

/// The longest time for a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses after failed attempts. The attempt after the last one is the last.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_mins(1),
    Duration::from_mins(10),
    Duration::from_hours(1),
];
/// The time for which a push service is left alone if it does not say it, and the most it may say.
const HOLD: Duration = Duration::from_mins(1);
const MOST_HOLD: Duration = Duration::from_hours(1);
/// The time in which a refusal of one push service is logged once.
const ALARM: Duration = Duration::from_hours(1);
/// How late a message may be that is sent now or never.
const NOW: Duration = Duration::from_mins(1);
/// The most push services whose refusals and pauses are remembered.
const MOST_ORIGINS: usize = 1_000;
/// A pause that ends at most this much later than a known one is not new.
const SAME_HOLD: Duration = Duration::from_secs(10);
/// The pause after an error of the app itself.
const POSTPONED: Duration = Duration::from_secs(30);

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The push service took the message.
    Sent,
    /// No attempt follows.
    Dead(DeliveryReason),
    /// Another attempt follows at this time.
    Again(Timestamp),
    /// The push service must be left alone until this time. The attempt does not count.
    Held(Timestamp),
    /// The app could not make the request. It tries again at this time; the attempt does not count.
    Postponed(Timestamp),
}

impl Outcome {
    /// Whether the attempt counts.
    pub(crate) const fn counts(self) -> bool {
        !matches!(self, Self::Held(_) | Self::Postponed(_))
    }
}

/// A finished attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) outcome: Outcome,
    /// The status of the answer.
    pub(crate) status: Option<u16>,
}

/// Makes requests.
pub(crate) struct Sender {
    pub(crate) client: SafeClient,
    pub(crate) tokens: Tokens,
    pub(crate) origins: Origins,
}

/// The state of push services in this process, by scheme, host and port.
#[derive(Default)]
pub(crate) struct Origins {
    /// When a refusal may be logged again.
    alarms: Mutex<HashMap<String, Timestamp>>,
    /// Until when a service is left alone.
    holds: Mutex<HashMap<String, Timestamp>>,
}

impl Origins {
    /// Until when a service is left alone.
    fn held(&self, origin: &str, now: Timestamp) -> Option<Timestamp> {
        let until = self.holds.lock().get(origin).copied();
        until.filter(|until| *until > now)
    }

    /// Remembers a pause that a service asked for. Returns whether it is new, so that the rows of
    /// the service must be written.
    pub(crate) fn hold(&self, origin: &str, until: Timestamp) -> bool {
        let mut holds = self.holds.lock();
        if holds
            .get(origin)
            .is_some_and(|known| later(*known, SAME_HOLD) >= until)
        {
            return false;
        }
        if holds.len() >= MOST_ORIGINS {
            holds.clear();
        }
        holds.insert(origin.to_owned(), until);
        true
    }

    /// Whether a refusal of a service is logged now: once an hour.
    fn is_told(&self, origin: &str, now: Timestamp) -> bool {
        let mut alarms = self.alarms.lock();
        if alarms.get(origin).is_some_and(|again| *again > now) {
            return false;
        }
        if alarms.len() >= MOST_ORIGINS {
            alarms.clear();
        }
        alarms.insert(origin.to_owned(), later(now, ALARM));
        true
    }
}

impl Sender {
    /// Sends a message once. It is encrypted anew for each attempt.
    pub(crate) async fn send(
        &self,
        config: &PushConfig,
        subscription: &PushSubscription,
        receiver: &Receiver,
        delivery: &PushDelivery,
        now: Timestamp,
    ) -> Result<Attempt> {
        if is_expired(delivery, now) {
            return Ok(dead(DeliveryReason::Expired));
        }
        if let Some(until) = self.origins.held(&subscription.origin, now) {
            let outcome = Outcome::Held(until);
            return Ok(Attempt {
                outcome,
                status: None,
            });
        }
        let Some(key) = config.key(&subscription.vapid_kid) else {
            return Ok(dead(DeliveryReason::Rejected));
        };
        let Some(body) = encrypt(receiver, delivery.message.as_bytes())? else {
            return Ok(dead(DeliveryReason::PayloadTooLarge));
        };
        let origin = &subscription.origin;
        let token = self
            .tokens
            .authorization(key, origin, &config.subject, now)?;
        let began = Instant::now();
        let answer = match request(subscription, delivery, body, &token, now) {
            Ok(request) => self.client.send(request).await,
            Err(failure) => Err(failure),
        };
        metrics::requested(began.elapsed());
        Ok(match answer {
            Ok(reply) => self.answered(origin, delivery, &reply, now),
            Err(Failure::Refused(_)) => dead(DeliveryReason::BlockedAddress),
            Err(failure) => {
                tracing::debug!(%failure, host = subscription.endpoint_host, "a push service was not reached");
                Attempt {
                    outcome: again(delivery, now),
                    status: None,
                }
            }
        })
    }

    fn answered(
        &self,
        origin: &str,
        delivery: &PushDelivery,
        reply: &Reply,
        now: Timestamp,
    ) -> Attempt {
        let outcome = match reply.status.as_u16() {
            200 | 201 | 202 | 204 => Outcome::Sent,
            404 | 410 => Outcome::Dead(DeliveryReason::Gone),
            413 => Outcome::Dead(DeliveryReason::PayloadTooLarge),
            400 | 401 | 403 => {
                self.alarm(origin, reply.status.as_u16(), now);
                Outcome::Dead(DeliveryReason::Rejected)
            }
            429 | 503 => {
                let header = reply.headers.get("retry-after");
                let asked = header
                    .and_then(|value| value.to_str().ok())
                    .and_then(|text| linchpin_safe_client::retry_after(text, now.millis()));
                Outcome::Held(later(now, asked.unwrap_or(HOLD).min(MOST_HOLD)))
            }
            _ => again(delivery, now),
        };
        Attempt {
            outcome,
            status: Some(reply.status.as_u16()),
        }
    }

    /// Logs that a push service refuses the app, once an hour.
    fn alarm(&self, origin: &str, status: u16, now: Timestamp) {
        if !self.origins.is_told(origin, now) {
            return;
        }
        tracing::error!(
            alarm = "push.vapid.rejected",
            origin,
            status,
            "a push service refuses messages of this app: check `push.vapid` and `push.subject`"
        );
    }
}

fn dead(reason: DeliveryReason) -> Attempt {
    Attempt {
        outcome: Outcome::Dead(reason),
        status: None,
    }
}

/// An attempt that an error of the app prevented.
pub(crate) fn postponed(now: Timestamp) -> Attempt {
    Attempt {
        outcome: Outcome::Postponed(later(now, POSTPONED)),
        status: None,
    }
}

/// Whether the time of a message has passed.
fn is_expired(delivery: &PushDelivery, now: Timestamp) -> bool {
    // A message without time to wait is sent once, as soon as a worker takes it.
    let spare = if delivery.ttl == 0 && delivery.attempts == 0 {
        NOW
    } else {
        Duration::ZERO
    };
    now > later(delivery.expires_at, spare)
}

/// What follows after a failure.
fn again(delivery: &PushDelivery, now: Timestamp) -> Outcome {
    let number = delivery.attempts + 1;
    let pause = usize::try_from(delivery.attempts)
        .ok()
        .and_then(|at| PAUSES.get(at));
    let Some(pause) = pause else {
        return Outcome::Dead(DeliveryReason::Exhausted);
    };
    let at = later(now, pause.mul_f64(0.8 + 0.4 * spread(&delivery.id, number)));
    if at > delivery.expires_at {
        return Outcome::Dead(DeliveryReason::Expired);
    }
    Outcome::Again(at)
}

fn request(
    subscription: &PushSubscription,
    delivery: &PushDelivery,
    body: Vec<u8>,
    token: &str,
    now: Timestamp,
) -> std::result::Result<Outgoing, Failure> {
    let rest = delivery.expires_at.millis().saturating_sub(now.millis()) / 1_000;
    let ttl = if delivery.attempts == 0 {
        delivery.ttl
    } else {
        rest.clamp(0, delivery.ttl)
    };
    let mut request = Outgoing::post(subscription.endpoint.as_str(), body);
    request.headers.clear();
    request = request
        .timeout(TIMEOUT)
        .header("content-type", "application/octet-stream")?
        .header("content-encoding", "aes128gcm")?
        .header("authorization", token)?
        .header("ttl", &ttl.to_string())?
        .header("urgency", delivery.urgency.as_str())?;
    match &delivery.topic {
        Some(topic) => request.header("topic", topic),
        None => Ok(request),
    }
}
