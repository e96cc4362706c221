//! Claims: records of an entity of our own, in the store of the app.
//!
//! A claim is made by inserting its record, which one of many callers can do. The caller that made
//! it finishes it with the answer, or frees it; its statements name the holder, so that a claim
//! which another has taken over is not touched.

use std::sync::Arc;

use super::kept::Kept;
use crate::entity::{EntityDesc, FieldDesc, Flags, Kind, SourceLine, Ttl};
use crate::filter::{Filter, Op, Operand, Source};
use crate::resource::{CursorKey, Form, Prepared, Table};
use crate::store::{Assign, AssignValue, Plan, Rows, Store};
use crate::{Code, Cx, Error, Result, Timestamp, Value};

/// How often a caller looks again when the claim it met has gone meanwhile.
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

/// Nobody but us reads or writes any of it.
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
    doc: "Calls that were made under an idempotency key, and what they were answered.",
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

/// A claim that this call holds.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    id: String,
    holder: String,
}

/// What a call is about.
pub(super) struct Ask {
    /// Who calls which route under which key.
    pub(super) id: String,
    /// What is asked for.
    pub(super) fingerprint: String,
    /// Milliseconds after which a claim counts as left behind.
    pub(super) stale: u64,
    /// Milliseconds for which an answer is kept.
    pub(super) ttl: u64,
}

/// What a call meets.
pub(super) enum Met {
    /// Nothing: it goes on, and finishes or frees the claim.
    Claimed(Claim),
    /// The answer of an earlier call.
    Kept(Kept),
}

/// Where calls under an idempotency key are known: a table in the app's store. An
/// [`App`](crate::App) makes it when a route asks for it.
pub struct Claims {
    table: Arc<Table>,
    insert: Prepared,
    read: Prepared,
    take: Prepared,
    finish: Prepared,
    free: Prepared,
    /// Whether the store has transactions.
    pub(super) transacts: bool,
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Claims {
    /// On a store in which the entity [`Claims::entity`] is installed.
    ///
    /// # Errors
    /// When the store refuses a statement.
    pub fn new(store: &Arc<dyn Store>) -> Result<Self> {
        let table = Arc::new(Table::new(
            &CLAIM,
            Arc::clone(store),
            CursorKey::derive::<&[u8]>(&[]),
        )?);
        // The holder's alone, and only while it runs.
        let held = || {
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
                filter: held(),
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
            take: table.prepare("take", update(&[HOLDER, CLAIMED_AT, EXPIRES_AT]))?,
            finish: table.prepare("finish", update(&[STATUS, HEADERS, BODY, EXPIRES_AT]))?,
            free: table.prepare(
                "free",
                Plan::Delete {
                    filter: held(),
                    pick: None,
                },
            )?,
            transacts: store.supports("transaction"),
            table,
        })
    }

    /// What a claim is, for [`Store::install`].
    pub fn entity() -> &'static EntityDesc {
        &CLAIM
    }

    /// The table, for the sweeper.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Claims a call, or finds out who has.
    ///
    /// # Errors
    /// `idempotency_conflict` when the key was used for something else, `idempotency_in_progress`
    /// while the other call runs; those of the store.
    pub(super) async fn claim(&self, cx: &Cx, ask: &Ask) -> Result<Met> {
        let holder = crate::Uuid::new_v7().as_str().to_owned();
        let now = Value::Date(cx.now());
        // A claim outlives the call that holds it, however short its answer is kept.
        let expiry = later(cx.now(), ask.ttl.max(ask.stale));
        for _ in 0..ATTEMPTS {
            let texts = [&ask.id, &ask.fingerprint, &holder].map(|text| Value::Text(text.clone()));
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
                    return Ok(Met::Claimed(Claim {
                        id: ask.id.clone(),
                        holder,
                    }));
                }
                Err(error) if error.code() == Code::Conflict => {}
                Err(error) => return Err(error),
            }
            let id = Value::Text(ask.id.clone());
            let rows = self
                .table
                .execute(
                    cx,
                    &self.read,
                    vec![id.clone()],
                    self.table.rows(&Form::Records),
                )
                .await?;
            // Freed in between.
            let Some(record) = rows.records.first() else {
                continue;
            };
            if text(&record[FINGERPRINT]) != ask.fingerprint {
                return Err(Error::new(
                    Code::IdempotencyConflict,
                    "The idempotency key was used for another request",
                ));
            }
            if let Value::Int(status) = record[STATUS] {
                return Kept::stored(status, text(&record[HEADERS]), &record[BODY]).map(Met::Kept);
            }
            let claimed_at = if let Value::Date(at) = record[CLAIMED_AT] {
                at
            } else {
                cx.now()
            };
            if cx.now().millis().saturating_sub(claimed_at.millis())
                < i64::try_from(ask.stale).unwrap_or(i64::MAX)
            {
                break;
            }
            // Its call ended without a word: the process died, say. One of those who notice goes
            // on.
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
                .execute(cx, &self.take, args, Rows::count())
                .await?
                .count
                > 0
            {
                tracing::warn!(
                    "an idempotency key was left behind by a call that never ended; another takes it over"
                );
                return Ok(Met::Claimed(Claim {
                    id: ask.id.clone(),
                    holder,
                }));
            }
        }
        Err(Error::new(
            Code::IdempotencyInProgress,
            "A request with this idempotency key is being worked on",
        )
        .retry_after(1))
    }

    /// Keeps the answer of a call. `false` when another has taken the claim over.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn finish(
        &self,
        cx: &Cx,
        claim: &Claim,
        kept: &Kept,
        ttl: u64,
    ) -> Result<bool> {
        let (status, headers, body) = kept.values();
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

    /// Lets go of a claim: the next call under the key is a first one.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn free(&self, cx: &Cx, claim: &Claim) -> Result<()> {
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

/// The last instant that can be written, when the sum lies beyond it.
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

    async fn claims() -> Claims {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        store.install(&[&CLAIM]).await.unwrap();
        Claims::new(&store).unwrap()
    }

    fn at(millis: i64) -> Cx {
        Cx::actor(crate::Actor::anonymous()).at(Timestamp::from_millis(1_767_323_045_678 + millis))
    }

    fn ask(fingerprint: &str) -> Ask {
        Ask {
            id: "one".to_owned(),
            fingerprint: fingerprint.to_owned(),
            stale: STALE,
            ttl: 2 * STALE,
        }
    }

    async fn first(claims: &Claims, cx: &Cx) -> Claim {
        match claims.claim(cx, &ask("f")).await.unwrap() {
            Met::Claimed(claim) => claim,
            Met::Kept(_) => panic!("nothing is kept yet"),
        }
    }

    async fn code(claims: &Claims, cx: &Cx, fingerprint: &str) -> Option<Code> {
        claims
            .claim(cx, &ask(fingerprint))
            .await
            .err()
            .map(|error| error.code())
    }

    fn kept() -> Kept {
        Kept::stored(201, "[]", &Value::Text("e30=".to_owned())).unwrap()
    }

    #[tokio::test]
    async fn a_claim_left_behind_is_taken_over_once_and_its_holder_has_lost_it() {
        let claims = claims().await;
        let lost = first(&claims, &at(0)).await;
        let almost = at(STALE as i64 - 1);
        assert_eq!(
            code(&claims, &almost, "f").await,
            Some(Code::IdempotencyInProgress)
        );
        let late = at(STALE as i64);
        // Not for something else.
        assert_eq!(
            code(&claims, &late, "g").await,
            Some(Code::IdempotencyConflict)
        );
        let taken = first(&claims, &late).await;
        assert_eq!(
            code(&claims, &late, "f").await,
            Some(Code::IdempotencyInProgress)
        );
        // The first holder comes back.
        assert!(!claims.finish(&late, &lost, &kept(), 1_000).await.unwrap());
        claims.free(&late, &lost).await.unwrap();
        assert_eq!(
            code(&claims, &late, "f").await,
            Some(Code::IdempotencyInProgress)
        );
        assert!(claims.finish(&late, &taken, &kept(), 1_000).await.unwrap());
        assert!(matches!(
            claims.claim(&late, &ask("f")).await.unwrap(),
            Met::Kept(_)
        ));
    }

    #[tokio::test]
    async fn what_is_finished_is_not_freed_and_is_forgotten_in_time() {
        let claims = claims().await;
        let claim = first(&claims, &at(0)).await;
        assert!(claims.finish(&at(0), &claim, &kept(), 1_000).await.unwrap());
        assert!(!claims.finish(&at(0), &claim, &kept(), 1_000).await.unwrap());
        claims.free(&at(0), &claim).await.unwrap();
        assert!(matches!(
            claims.claim(&at(999), &ask("f")).await.unwrap(),
            Met::Kept(_)
        ));
        // Expired, though not swept yet: the key is as good as new, for anything.
        assert!(matches!(
            claims.claim(&at(1_000), &ask("g")).await.unwrap(),
            Met::Claimed(_)
        ));
    }

    #[tokio::test]
    async fn a_running_claim_outlives_a_short_ttl() {
        let claims = claims().await;
        let ask = Ask {
            ttl: 1_000,
            ..ask("f")
        };
        let Met::Claimed(claim) = claims.claim(&at(0), &ask).await.unwrap() else {
            panic!("nothing is kept yet")
        };
        assert_eq!(
            code(&claims, &at(2_000), "f").await,
            Some(Code::IdempotencyInProgress)
        );
        claims.free(&at(2_000), &claim).await.unwrap();
        first(&claims, &at(2_001)).await;
    }
}
