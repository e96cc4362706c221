//! The plain server's database: Postgres, one pool.

use linchpin::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgPoolOptions, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, PgPool, Postgres, Row as _, Type};

pub type Pool = PgPool;
pub type Row = PgRow;

pub async fn connect(url: &str) -> sqlx::Result<(Pool, Pool)> {
    let pool = PgPoolOptions::new()
        .max_connections(8)
        .test_before_acquire(false)
        .connect(url)
        .await?;
    Ok((pool.clone(), pool))
}

/// A `timestamptz` as microseconds since 2000. sqlx needs a date library to read it, and this
/// program has none.
pub struct At(i64);

/// The milliseconds from 1970 to 2000.
const EPOCH: i64 = 946_684_800_000;

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<'_, Postgres>>::encode_by_ref(&self.0, out)
    }
}

impl<'r> Decode<'r, Postgres> for At {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<'r, Postgres>>::decode(value).map(Self)
    }
}

pub fn at(date: Timestamp) -> At {
    At((date.millis() - EPOCH) * 1000)
}

pub fn date(row: &Row, column: usize) -> Timestamp {
    Timestamp::from_millis(row.get::<At, _>(column).0 / 1000 + EPOCH)
}

pub fn some_date(row: &Row, column: usize) -> Option<Timestamp> {
    row.get::<Option<At>, _>(column)
        .map(|at| Timestamp::from_millis(at.0 / 1000 + EPOCH))
}

/// A list of texts in the form of this database.
pub fn tags(row: &Row, column: usize) -> Vec<String> {
    row.get(column)
}

pub fn of_tags(tags: Vec<String>) -> Vec<String> {
    tags
}

/// An element of the column `lines`, which is a JSON array.
#[derive(Serialize, Deserialize)]
pub struct Line {
    pub sku: String,
    pub quantity: i64,
}

pub const TAG: &str = "UPDATE items SET tags = CASE WHEN $2 = ANY(tags) THEN tags ELSE array_append(tags, $2) END WHERE id = $1 RETURNING *";
pub const UNTAG: &str = "UPDATE items SET tags = array_remove(tags, $2) WHERE id = $1 RETURNING *";
pub const LINE: &str = "UPDATE items SET lines = (SELECT jsonb_agg(CASE WHEN v ->> 'sku' = $2 THEN jsonb_set(v, '{quantity}', to_jsonb($3)) ELSE v END ORDER BY n) FROM jsonb_array_elements(lines) WITH ORDINALITY AS e(v, n)) WHERE id = $1 AND EXISTS (SELECT 1 FROM jsonb_array_elements(lines) AS e(v) WHERE v ->> 'sku' = $2) RETURNING *";
pub const FIND: &str = "SELECT * FROM items WHERE title ILIKE '%' || $1 || '%' ORDER BY created_at DESC, id DESC LIMIT 21";
