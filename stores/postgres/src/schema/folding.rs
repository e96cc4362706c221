//! The database function that folds case. It contains the case folding of the framework as a
//! character table.

use std::sync::OnceLock;

use linchpin_core::filter::eval::fold;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::render::{FOLD, literal};

/// Creates the function if it does not exist or has the body of another release.
pub(super) async fn create(connection: &mut PgConnection) -> sqlx::Result<()> {
    let body = folding_body();
    let text = "SELECT p.prosrc FROM pg_proc p \
         JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = current_schema() \
         WHERE p.proname = $1 AND NOT p.proisstrict";
    let found: Option<String> = sqlx::query_scalar(text)
        .bind(FOLD)
        .fetch_optional(&mut *connection)
        .await?;
    if found.as_deref() == Some(body) {
        return Ok(());
    }
    // The function is not STRICT, so that the server inlines its body, which is ten times as fast.
    // The result for null is null anyway.
    let sql = format!(
        "CREATE OR REPLACE FUNCTION {FOLD}(text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS {}",
        literal(body)
    );
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await
        .map(drop)
}

/// The body is computed once, because it examines every Unicode character.
fn folding_body() -> &'static str {
    static BODY: OnceLock<String> = OnceLock::new();
    BODY.get_or_init(fold_all)
}

fn fold_all() -> String {
    let (mut from, mut to) = (String::new(), String::new());
    for c in '\u{1}'..=char::MAX {
        let one = fold(c.encode_utf8(&mut [0; 4]));
        if !one.chars().eq([c]) {
            from.push(c);
            to.push_str(&one);
        }
    }
    // Most texts are ASCII, for which `lower` is fast. In other texts `translate` replaces
    // characters one by one.
    format!(
        "SELECT CASE WHEN octet_length($1) = char_length($1) THEN lower($1 COLLATE \"C\") ELSE translate($1, {}, {}) END",
        literal(&from),
        literal(&to)
    )
}
