//! Claims of idempotency keys: records of an internal entity, in the store of the app.
//!
//! A claim is a record; inserting it succeeds for one caller only. That caller finishes the claim
//! with the response, or releases it. The statements contain the holder, so that they do not change
//! a claim that another caller has taken over.

use std::sync::Arc;

use super::stored::StoredResponse;
use crate::entity::{EntityDesc, FieldDesc, Flags, Kind, SourceLine, Ttl};
use crate::filter::{Filter, Op, Operand, Source};
use crate::resource::{CursorKey, Form, Prepared, Table};
use crate::store::{Assign, AssignValue, Plan, Rows, Store};
use crate::{Code, Cx, Error, Result, Timestamp, Value};

/// The maximum number of attempts to claim a key, if other calls release their claim at the same
/// time.
const ATTEMPTS: usize = 4;

// Positions of the fields.
const ID: usize = 0;
const FINGERPRINT: usize = 1;
const HOLDER: usize = 2;
const CLAIMED_AT: usize = 3;
const STATUS: usize = 4;
const HEADERS: usize = 5;
const BODY: usize = 6;
const EXPIRES_AT: usize = 7;

/// Only this module reads and writes these fields.
const fn field(name: &'static str, kind: Kind, optional: bool) -> FieldDesc {
    FieldDesc {
        flags: Flags::PRIVATE,
        ..FieldDesc::new(name, name, name, kind, optional)
    }
}

static FIELDS: [FieldDesc; 8] = [
    FieldDesc {
        flags: Flags::PRIMARY.or(Flags::PRIVATE),
        ..field("id", Kind::String, false)
    },
    field("fingerprint", Kind::String, false),
    field("holder", Kind::String, false),
    field("claimed_at", Kind::Date, false),
    // Null while the call runs.
    field("status", Kind::Integer, true),
    // A JSON array of names and values.
    field("headers", Kind::String, true),
    // Base64; null when the body was not kept.
    field("body", Kind::String, true),
    field("expires_at", Kind::Date, true),
];

/// Calls that were made under a key. No package mounts it.
static CLAIM: EntityDesc = EntityDesc {
    doc: "Calls that were made under an idempotency key, and their responses.",
    ttl: Some(Ttl {
        field: EXPIRES_AT,
        after: None,
    }),
    at: SourceLine {
        file: file!(),
        line: line!(),
    },
    ..EntityDesc::new(
        "IdempotencyClaim",
        "idempotency",
        "linchpin_idempotency",
        &FIELDS,
    )
};

/// A claim that the current call holds.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    id: String,
    holder: String,
}

/// The identity of a call.
pub(super) struct CallId {
    /// The hash of the caller, the route, the key, and the context values that the effect depends
    /// on.
    pub(super) id: String,
    /// The hash of the content: method, path, query, body, the headers `Content-Type` and
    /// `If-Match`, and the context values that code of the app may read.
    pub(super) fingerprint: String,
    /// Milliseconds after which a claim counts as abandoned.
    pub(super) stale: u64,
    /// Milliseconds for which a response is stored.
    pub(super) ttl: u64,
}

/// The result of an attempt to claim a key.
pub(super) enum ClaimResult {
    /// The call is the first: it runs, and then finishes or releases the claim.
    Claimed(Claim),
    /// The response of an earlier call.
    Stored(StoredResponse),
}

/// The claims of idempotency keys: a table in the app's store. An [`App`](crate::App) creates it
/// if a route has `idempotency`.
pub struct Claims {
    table: Arc<Table>,
    insert: Prepared,
    read: Prepared,
    take_over: Prepared,
    finish: Prepared,
    free: Prepared,
    /// Whether the store has transactions.
    pub(super) has_transactions: bool,
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Claims {
    /// Creates the claims on a store that has the table of [`Claims::entity`].
    ///
    /// # Errors
    /// If the store refuses a statement.
    pub fn new(store: &Arc<dyn Store>) -> Result<Self> {
        let table = Arc::new(Table::new(
            &CLAIM,
            Arc::clone(store),
            CursorKey::derive::<&[u8]>(&[]),
        )?);
        // Matches a claim only for its holder, and only while the holder's call runs.
        let held_by_caller = || {
            let running = Filter::cond(STATUS, Op::Eq, Operand::One(Source::Value(Value::Null)));
            Filter::eq_arg(ID, 0)
                .and(Filter::eq_arg(HOLDER, 1))
                .and(running)
        };
        let update = |fields: &[usize]| {
            let set = |(i, field): (usize, &usize)| Assign {
                field: *field,
                value: AssignValue::Set(Source::Arg {
                    index: 2 + i,
                    nullable: true,
                }),
            };
            Plan::Update {
                filter: held_by_caller(),
                set: fields.iter().enumerate().map(set).collect(),
                pick: None,
            }
        };
        let by_id = Plan::Select {
            filter: Filter::eq_arg(ID, 0),
            order: Vec::new(),
            after: None,
            limit: None,
        };
        Ok(Self {
            insert: table.prepare("claim", Plan::Insert)?,
            read: table.prepare("read", by_id)?,
            take_over: table.prepare("take", update(&[HOLDER, CLAIMED_AT, EXPIRES_AT]))?,
            finish: table.prepare("finish", update(&[STATUS, HEADERS, BODY, EXPIRES_AT]))?,
            free: table.prepare(
                "free",
                Plan::Delete {
                    filter: held_by_caller(),
                    pick: None,
                },
            )?,
            has_transactions: store.supports("transaction"),
            table,
        })
    }

    /// The entity of claims, whose table belongs to the framework.
    pub fn entity() -> &'static EntityDesc {
        &CLAIM
    }

    /// The table, for the sweeper.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Claims a call, or finds the existing claim.
    ///
    /// # Errors
    /// `idempotency_conflict` if the key was used for another request, `idempotency_in_progress`
    /// while the other call runs; the errors of the store.
    pub(super) async fn claim(&self, cx: &Cx, call_id: &CallId) -> Result<ClaimResult> {
        let holder = crate::Uuid::new_v7().as_str().to_owned();
        let now = Value::Date(cx.now());
        // A claim lasts longer than its call, even if its response is stored for a shorter time.
        let expiry = later(cx.now(), call_id.ttl.max(call_id.stale));
        for _ in 0..ATTEMPTS {
            let texts =
                [&call_id.id, &call_id.fingerprint, &holder].map(|text| Value::Text(text.clone()));
            let values = texts
                .into_iter()
                .chain([
                    now.clone(),
                    Value::Null,
                    Value::Null,
                    Value::Null,
                    expiry.clone(),
                ])
                .collect();
            match self
                .table
                .execute(cx, &self.insert, values, Rows::count())
                .await
            {
                Ok(_) => {
                    return Ok(ClaimResult::Claimed(Claim {
                        id: call_id.id.clone(),
                        holder,
                    }));
                }
                Err(error) if error.code() == Code::Conflict => {}
                Err(error) => return Err(error),
            }
            let id = Value::Text(call_id.id.clone());
            let rows = self
                .table
                .execute(
                    cx,
                    &self.read,
                    vec![id.clone()],
                    self.table.rows(&Form::Records),
                )
                .await?;
            // The claim was released between the two statements.
            let Some(record) = rows.records.first() else {
                continue;
            };
            if text(&record[FINGERPRINT]) != call_id.fingerprint {
                return Err(Error::new(
                    Code::IdempotencyConflict,
                    "The idempotency key was used for another request",
                ));
            }
            if let Value::Int(status) = record[STATUS] {
                return StoredResponse::stored(status, text(&record[HEADERS]), &record[BODY])
                    .map(ClaimResult::Stored);
            }
            let claimed_at = if let Value::Date(at) = record[CLAIMED_AT] {
                at
            } else {
                cx.now()
            };
            if cx.now().millis().saturating_sub(claimed_at.millis())
                < i64::try_from(call_id.stale).unwrap_or(i64::MAX)
            {
                break;
            }
            // The process of the earlier call has died. One of the waiting calls takes over the
            // claim.
            let old = record[HOLDER].clone();
            let args = vec![
                id,
                old,
                Value::Text(holder.clone()),
                now.clone(),
                expiry.clone(),
            ];
            if self
                .table
                .execute(cx, &self.take_over, args, Rows::count())
                .await?
                .count
                > 0
            {
                tracing::warn!(
                    "a call did not finish with its idempotency key; another call takes the key over"
                );
                return Ok(ClaimResult::Claimed(Claim {
                    id: call_id.id.clone(),
                    holder,
                }));
            }
        }
        Err(Error::new(
            Code::IdempotencyInProgress,
            "A request with this idempotency key is in progress",
        )
        .retry_after(1))
    }

    /// Stores the response of a call. `false` if another call has taken the claim over.
    ///
    /// # Errors
    /// The errors of the store.
    pub(super) async fn finish(
        &self,
        cx: &Cx,
        claim: &Claim,
        stored_response: &StoredResponse,
        ttl: u64,
    ) -> Result<bool> {
        let (status, headers, body) = stored_response.values();
        let args = vec![
            Value::Text(claim.id.clone()),
            Value::Text(claim.holder.clone()),
            status,
            headers,
            body,
            later(cx.now(), ttl),
        ];
        Ok(self
            .table
            .execute(cx, &self.finish, args, Rows::count())
            .await?
            .count
            > 0)
    }

    /// Releases a claim: the next call under the key is a first call.
    ///
    /// # Errors
    /// The errors of the store.
    pub(super) async fn release(&self, cx: &Cx, claim: &Claim) -> Result<()> {
        let args = vec![
            Value::Text(claim.id.clone()),
            Value::Text(claim.holder.clone()),
        ];
        self.table
            .execute(cx, &self.free, args, Rows::count())
            .await
            .map(drop)
    }
}

/// The sum, or the last instant that can be stored if the sum is later.
fn later(now: Timestamp, millis: u64) -> Value {
    let millis = now
        .millis()
        .saturating_add(i64::try_from(millis).unwrap_or(i64::MAX))
        .min(253_402_300_799_999);
    Value::Date(Timestamp::from_millis(millis))
}

fn text(value: &Value) -> &str {
    if let Value::Text(text) = value {
        text
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::Memory;

    const STALE: u64 = 60_000;

    fn claims() -> Claims {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        Claims::new(&store).unwrap()
    }

    fn at(millis: i64) -> Cx {
        Cx::actor(crate::Actor::anonymous()).at(Timestamp::from_millis(1_767_323_045_678 + millis))
    }

    fn call_id(fingerprint: &str) -> CallId {
        CallId {
            id: "one".to_owned(),
            fingerprint: fingerprint.to_owned(),
            stale: STALE,
            ttl: 2 * STALE,
        }
    }

    async fn first(claims: &Claims, cx: &Cx) -> Claim {
        match claims.claim(cx, &call_id("f")).await.unwrap() {
            ClaimResult::Claimed(claim) => claim,
            ClaimResult::Stored(_) => panic!("a response is stored already"),
        }
    }

    async fn code(claims: &Claims, cx: &Cx, fingerprint: &str) -> Option<Code> {
        claims
            .claim(cx, &call_id(fingerprint))
            .await
            .err()
            .map(|error| error.code())
    }

    fn stored_response() -> StoredResponse {
        StoredResponse::stored(201, "[]", &Value::Text("e30=".to_owned())).unwrap()
    }

    #[tokio::test]
    async fn a_stale_claim_is_taken_over_once_and_its_holder_loses_it() {
        let claims = claims();
        let lost = first(&claims, &at(0)).await;
        let almost = at(STALE as i64 - 1);
        assert_eq!(
            code(&claims, &almost, "f").await,
            Some(Code::IdempotencyInProgress)
        );
        let late = at(STALE as i64);
        // Another request with the same key cannot take the claim over.
        assert_eq!(
            code(&claims, &late, "g").await,
            Some(Code::IdempotencyConflict)
        );
        let taken = first(&claims, &late).await;
        assert_eq!(
            code(&claims, &late, "f").await,
            Some(Code::IdempotencyInProgress)
        );
        // The first holder tries to finish and to release its lost claim.
        assert!(
            !claims
                .finish(&late, &lost, &stored_response(), 1_000)
                .await
                .unwrap()
        );
        claims.release(&late, &lost).await.unwrap();
        assert_eq!(
            code(&claims, &late, "f").await,
            Some(Code::IdempotencyInProgress)
        );
        assert!(
            claims
                .finish(&late, &taken, &stored_response(), 1_000)
                .await
                .unwrap()
        );
        assert!(matches!(
            claims.claim(&late, &call_id("f")).await.unwrap(),
            ClaimResult::Stored(_)
        ));
    }

    #[tokio::test]
    async fn a_finished_claim_is_kept_until_it_expires() {
        let claims = claims();
        let claim = first(&claims, &at(0)).await;
        assert!(
            claims
                .finish(&at(0), &claim, &stored_response(), 1_000)
                .await
                .unwrap()
        );
        assert!(
            !claims
                .finish(&at(0), &claim, &stored_response(), 1_000)
                .await
                .unwrap()
        );
        claims.release(&at(0), &claim).await.unwrap();
        assert!(matches!(
            claims.claim(&at(999), &call_id("f")).await.unwrap(),
            ClaimResult::Stored(_)
        ));
        // The claim has expired, but is not removed yet: another request can use the key.
        assert!(matches!(
            claims.claim(&at(1_000), &call_id("g")).await.unwrap(),
            ClaimResult::Claimed(_)
        ));
    }

    #[tokio::test]
    async fn a_running_claim_outlives_a_short_ttl() {
        let claims = claims();
        let call_id = CallId {
            ttl: 1_000,
            ..call_id("f")
        };
        let ClaimResult::Claimed(claim) = claims.claim(&at(0), &call_id).await.unwrap() else {
            panic!("a response is stored already")
        };
        assert_eq!(
            code(&claims, &at(2_000), "f").await,
            Some(Code::IdempotencyInProgress)
        );
        claims.release(&at(2_000), &claim).await.unwrap();
        first(&claims, &at(2_001)).await;
    }
}
