//! A hand-written worker. One thread groups waiting writes into a transaction, and claims due
//! deliveries in batches. At most 32 requests run at the same time.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use linchpin::{Timestamp, Uuid};
use linchpin_benches::now_millis;
use linchpin_safe_client::{Outgoing, SafeClient};
use rusqlite::{Connection, Transaction};
use tokio::sync::oneshot;

use super::app::SIGNING;
use super::queue;
use crate::Outcome;

const CONCURRENT_REQUESTS: usize = 32;
const BATCH: usize = 100;
const LEASE_MILLIS: i64 = 60_000;

/// A delivery that is claimed and not sent yet.
struct Claimed {
    id: String,
    url: String,
    message: String,
    event_id: String,
    occurred_at: i64,
    body: String,
}

/// The result of a sent delivery.
struct Done {
    id: String,
    url: String,
    started: i64,
    millis: i64,
    status: u16,
    headers: String,
    body: String,
}

enum Write {
    Claim(oneshot::Sender<Vec<Claimed>>),
    Settle(Done),
}

/// Sends all due deliveries.
pub(super) async fn run(file: &Path, client: SafeClient) -> Outcome<()> {
    let connection = queue::open(file)?;
    let (writes, queued) = mpsc::channel();
    let writer = std::thread::spawn(move || write(connection, &queued).map_err(|e| e.to_string()));
    let client = Arc::new(client);
    let key = STANDARD.decode(SIGNING.trim_start_matches("whsec_"))?;
    let keys = Arc::new([
        hmac::Key::new(hmac::HMAC_SHA256, &key),
        hmac::Key::new(hmac::HMAC_SHA256, SIGNING.as_bytes()),
    ]);
    let (mut waiting, mut running_requests) = (VecDeque::new(), FuturesUnordered::new());
    let mut more = true;
    let mut claim = None;
    loop {
        if more && claim.is_none() && waiting.len() < BATCH {
            let (answer, claimed) = oneshot::channel();
            writes.send(Write::Claim(answer))?;
            claim = Some(claimed);
        }
        while running_requests.len() < CONCURRENT_REQUESTS
            && let Some(claimed) = waiting.pop_front()
        {
            running_requests.push(tokio::spawn(send(
                Arc::clone(&client),
                Arc::clone(&keys),
                claimed,
            )));
        }
        if !more && running_requests.is_empty() && waiting.is_empty() {
            break;
        }
        tokio::select! {
            Some(done) = running_requests.next() => {
                writes.send(Write::Settle(done?.map_err(|e| e.clone())?))?;
            }
            claimed = async { claim.as_mut().expect("a claim").await }, if claim.is_some() => {
                let claimed = claimed?;
                claim = None;
                more = !claimed.is_empty();
                waiting.extend(claimed);
            }
        }
    }
    drop(writes);
    Ok(writer.join().map_err(|_| "the writer ended early")??)
}

async fn send(
    client: Arc<SafeClient>,
    keys: Arc<[hmac::Key; 2]>,
    claimed: Claimed,
) -> Result<Done, String> {
    let (started, began) = (now_millis(), Instant::now());
    let request = request(&keys, &claimed, started).map_err(|e| e.to_string())?;
    let reply = client.send(request).await.map_err(|e| e.to_string())?;
    let headers: serde_json::Map<String, serde_json::Value> = reply
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into(),
            )
        })
        .collect();
    Ok(Done {
        id: claimed.id,
        url: claimed.url,
        started,
        millis: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        status: reply.status.as_u16(),
        headers: serde_json::Value::Object(headers).to_string(),
        body: String::from_utf8_lossy(&reply.body).into_owned(),
    })
}

fn request(
    [key, compat]: &[hmac::Key; 2],
    claimed: &Claimed,
    now: i64,
) -> Result<Outgoing, linchpin_safe_client::Failure> {
    let seconds = now / 1_000;
    let sign = |key, head: String| {
        let mut mac = hmac::Context::with_key(key);
        mac.update(head.as_bytes());
        mac.update(claimed.body.as_bytes());
        mac.sign()
    };
    let signature = sign(key, format!("{}.{seconds}.", claimed.message));
    let signature = format!("v1,{}", STANDARD.encode(signature));
    let mut hex = format!("t={seconds},v1=");
    for byte in sign(compat, format!("{seconds}.")).as_ref() {
        hex.push_str(&format!("{byte:02x}"));
    }
    Outgoing::post(claimed.url.as_str(), claimed.body.clone())
        .header("accept-encoding", "identity")?
        .header("webhook-id", &claimed.message)?
        .header("webhook-timestamp", &seconds.to_string())?
        .header("webhook-signature", &signature)?
        .header("x-webhook-signature", &hex)?
        .header("x-webhook-event", "posts.created")?
        .header("x-webhook-event-id", &claimed.event_id)?
        .header(
            "x-webhook-occurred-at",
            &Timestamp::from_millis(claimed.occurred_at).to_string(),
        )?
        .header("x-webhook-delivery", &claimed.id)?
        .header("x-webhook-attempt", "1")
}

/// Runs the queued writes until the sender is dropped.
fn write(mut connection: Connection, queued: &mpsc::Receiver<Write>) -> rusqlite::Result<()> {
    while let Ok(first) = queued.recv() {
        let transaction = connection.transaction()?;
        let mut claims = Vec::new();
        for write in std::iter::once(first).chain(queued.try_iter()) {
            match write {
                Write::Settle(done) => settle(&transaction, &done)?,
                Write::Claim(answer) => claims.push((answer, claim(&transaction)?)),
            }
        }
        transaction.commit()?;
        for (answer, claimed) in claims {
            let _ = answer.send(claimed);
        }
    }
    Ok(())
}

/// Claims due deliveries of the first endpoint that has any, with a lease of 60 s.
fn claim(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<Claimed>> {
    let now = now_millis();
    let mut endpoints = transaction
        .prepare_cached("SELECT id, url FROM webhooks_webhook_endpoints WHERE status = 'active'")?;
    let endpoints = endpoints.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let endpoints: Vec<(String, String)> = endpoints.collect::<Result<_, _>>()?;
    let mut take = transaction.prepare_cached(
        "UPDATE webhooks_webhook_deliveries SET next_retry_at = ?1 WHERE id IN (
             SELECT id FROM webhooks_webhook_deliveries WHERE endpoint_id = ?2 AND next_retry_at <= ?3
             ORDER BY next_retry_at LIMIT ?4)
         RETURNING id, message_id, event_id, occurred_at",
    )?;
    let mut body =
        transaction.prepare_cached("SELECT body FROM webhooks_webhook_messages WHERE id = ?")?;
    let mut claimed = Vec::new();
    for (endpoint, url) in endpoints {
        let taken = take.query_map((now + LEASE_MILLIS, endpoint, now, BATCH as i64), |row| {
            let message: String = row.get(1)?;
            Ok(Claimed {
                id: row.get(0)?,
                url: url.clone(),
                event_id: row.get(2)?,
                occurred_at: row.get(3)?,
                body: body.query_row([&message], |row| row.get(0))?,
                message,
            })
        })?;
        claimed.extend(taken.collect::<Result<Vec<_>, _>>()?);
        if !claimed.is_empty() {
            break;
        }
    }
    Ok(claimed)
}

/// Writes the result of a delivery, and the attempt.
fn settle(transaction: &Transaction<'_>, done: &Done) -> rusqlite::Result<()> {
    let now = now_millis();
    let summary = serde_json::json!({
        "number": 1, "startedAt": Timestamp::from_millis(done.started).to_string(),
        "durationMs": done.millis, "statusCode": done.status, "errorKind": null, "error": null,
    });
    let mut update = transaction.prepare_cached(
        "UPDATE webhooks_webhook_deliveries SET status = 'delivered', reason = NULL, attempts = 1, next_retry_at = NULL, last_attempt_at = ?,
             delivered_at = ?, last_attempt = ?, updated_at = ?, version = version + 1 WHERE id = ?",
    )?;
    update.execute((done.started, now, summary.to_string(), now, &done.id))?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO webhooks_webhook_attempts (id, delivery_id, number, started_at, duration_ms, \"trigger\", url, status_code, response_headers, response_body, expires_at)
         VALUES (?, ?, 1, ?, ?, 'schedule', ?, ?, ?, ?, ?)",
    )?;
    insert.execute((
        Uuid::new_v7().to_string(),
        &done.id,
        done.started,
        done.millis,
        &done.url,
        done.status,
        &done.headers,
        &done.body,
        now + 30 * 86_400_000,
    ))?;
    Ok(())
}
