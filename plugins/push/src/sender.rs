//! One request to a push service, and the outcome of the attempt.

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

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses after failed attempts. After the attempt that follows the last pause, the message is
/// given up.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_mins(1),
    Duration::from_mins(10),
    Duration::from_hours(1),
];
/// The pause after a 429 or 503 without the header `retry-after`, and the maximum pause with it.
const DEFAULT_HOLD: Duration = Duration::from_mins(1);
const MAX_HOLD: Duration = Duration::from_hours(1);
/// Refusals of one push service are logged at most once in this time.
const LOG_INTERVAL: Duration = Duration::from_hours(1);
/// The maximum delay of a message with a lifetime of zero.
const ZERO_TTL_GRACE: Duration = Duration::from_mins(1);
/// The maximum number of push services whose refusals and pauses are kept in memory.
const MAX_ORIGINS: usize = 1_000;
/// A pause is new only if it ends more than this time after the known one.
const SAME_HOLD: Duration = Duration::from_secs(10);
/// The pause after an error of the app itself.
const POSTPONE_PAUSE: Duration = Duration::from_secs(30);

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The push service has accepted the message.
    Sent,
    /// No attempt follows.
    Dead(DeliveryReason),
    /// Another attempt follows at this time.
    Again(Timestamp),
    /// The push service accepts no message before this time. The attempt does not count.
    Held(Timestamp),
    /// The app could not make the request. The next attempt follows at this time; this one does not
    /// count.
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
    /// The HTTP status of the response.
    pub(crate) status: Option<u16>,
}

/// Sends requests to push services.
pub(crate) struct Sender {
    pub(crate) client: SafeClient,
    pub(crate) tokens: Tokens,
    pub(crate) origins: Origins,
}

/// The state of push services in this process, by scheme, host and port.
#[derive(Default)]
pub(crate) struct Origins {
    /// The time from which the next refusal of a service is logged.
    next_logs: Mutex<HashMap<String, Timestamp>>,
    /// The time until which no message is sent to a service.
    holds: Mutex<HashMap<String, Timestamp>>,
}

impl Origins {
    /// The time until which no message is sent to a service.
    fn held(&self, origin: &str, now: Timestamp) -> Option<Timestamp> {
        let until = self.holds.lock().get(origin).copied();
        until.filter(|until| *until > now)
    }

    /// Stores a pause that a service has requested. Returns whether it is new. A new pause must
    /// also be written to the subscriptions.
    pub(crate) fn hold(&self, origin: &str, until: Timestamp) -> bool {
        let mut holds = self.holds.lock();
        if holds
            .get(origin)
            .is_some_and(|known| later(*known, SAME_HOLD) >= until)
        {
            return false;
        }
        if holds.len() >= MAX_ORIGINS {
            holds.clear();
        }
        holds.insert(origin.to_owned(), until);
        true
    }

    /// Whether a refusal of a service must be logged now: at most once an hour.
    fn must_log(&self, origin: &str, now: Timestamp) -> bool {
        let mut next_logs = self.next_logs.lock();
        if next_logs.get(origin).is_some_and(|next| *next > now) {
            return false;
        }
        if next_logs.len() >= MAX_ORIGINS {
            next_logs.clear();
        }
        next_logs.insert(origin.to_owned(), later(now, LOG_INTERVAL));
        true
    }
}

impl Sender {
    /// Makes one attempt to send a message. Each attempt encrypts the message with new keys.
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
                    outcome: retry_or_give_up(delivery, now),
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
                self.log_refusal(origin, reply.status.as_u16(), now);
                Outcome::Dead(DeliveryReason::Rejected)
            }
            429 | 503 => {
                let header = reply.headers.get("retry-after");
                let requested = header
                    .and_then(|value| value.to_str().ok())
                    .and_then(|text| linchpin_safe_client::retry_after(text, now.millis()));
                Outcome::Held(later(now, requested.unwrap_or(DEFAULT_HOLD).min(MAX_HOLD)))
            }
            _ => retry_or_give_up(delivery, now),
        };
        Attempt {
            outcome,
            status: Some(reply.status.as_u16()),
        }
    }

    /// Logs that a push service refuses the app, at most once an hour.
    fn log_refusal(&self, origin: &str, status: u16, now: Timestamp) {
        if !self.origins.must_log(origin, now) {
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

/// An attempt that failed because of an error in the app.
pub(crate) fn postponed(now: Timestamp) -> Attempt {
    Attempt {
        outcome: Outcome::Postponed(later(now, POSTPONE_PAUSE)),
        status: None,
    }
}

/// Whether a message has expired.
fn is_expired(delivery: &PushDelivery, now: Timestamp) -> bool {
    // A message with a lifetime of zero is sent once, at most a minute late.
    let grace = if delivery.ttl == 0 && delivery.attempts == 0 {
        ZERO_TTL_GRACE
    } else {
        Duration::ZERO
    };
    now > later(delivery.expires_at, grace)
}

/// The outcome after a failure: another attempt, or none.
fn retry_or_give_up(delivery: &PushDelivery, now: Timestamp) -> Outcome {
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
