//! The tables and functions of the engine, and their version.

use sqlx::{Connection, PgConnection};

use crate::engine::{EngineError, Result};

/// The version of the tables and functions below.
const VERSION: i32 = 1;

/// Frames belong to an epoch, not to a stream: those of a replaced epoch are never read again.
/// Rows of streams are updated with every append, so each page keeps free space for them.
///
/// The functions run their statements one after the other, each with its own snapshot. So they
/// see all changes that other transactions committed while they waited for a lock. Names of columns
/// are qualified, because the names of results and parameters are variables.
const STATEMENTS: &str = r#"
CREATE TABLE linchpin_realtime_streams (
    name TEXT COLLATE "C" PRIMARY KEY,
    epoch TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    last TEXT COLLATE "C",
    expires BIGINT NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX linchpin_realtime_streams_expires ON linchpin_realtime_streams (expires);

CREATE TABLE linchpin_realtime_frames (
    epoch TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    frame BYTEA NOT NULL,
    PRIMARY KEY (epoch, position),
    UNIQUE (epoch, event)
);
CREATE INDEX linchpin_realtime_frames_until ON linchpin_realtime_frames (until);

CREATE TABLE linchpin_realtime_fences (
    consumer TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL
);

CREATE UNLOGGED TABLE linchpin_realtime_presence (
    stream TEXT COLLATE "C" NOT NULL,
    member TEXT COLLATE "C" NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (stream, member, node)
);
CREATE INDEX linchpin_realtime_presence_until ON linchpin_realtime_presence (until);

CREATE UNLOGGED TABLE linchpin_realtime_messages (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    body BYTEA NOT NULL
);

CREATE FUNCTION linchpin_realtime_append(
    names TEXT[], events TEXT[], bodies BYTEA[], sizes BIGINT[], ages BIGINT[], lives BIGINT[],
    fresh TEXT[], consumers TEXT[], fences BIGINT[], now BIGINT
) RETURNS TABLE (its_epoch TEXT, its_position BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    c RECORD;
    s RECORD;
    seen BIGINT;
BEGIN
    INSERT INTO linchpin_realtime_streams AS t (name, epoch, position, expires)
        SELECT DISTINCT ON (i.name) i.name, i.fresh, 0, now + i.life
        FROM unnest(names, fresh, lives) AS i(name, fresh, life) ORDER BY i.name
        ON CONFLICT (name) DO NOTHING;
    -- All locks in one order, so that appends never deadlock.
    PERFORM 1 FROM linchpin_realtime_streams AS t WHERE t.name = ANY(names) ORDER BY t.name FOR UPDATE;
    FOR c IN SELECT i.consumer, min(i.fence) AS lowest, max(i.fence) AS highest
        FROM unnest(consumers, fences) AS i(consumer, fence)
        WHERE i.consumer IS NOT NULL GROUP BY i.consumer ORDER BY i.consumer
    LOOP
        SELECT f.number INTO seen FROM linchpin_realtime_fences AS f WHERE f.consumer = c.consumer;
        IF seen > c.lowest OR c.highest > c.lowest THEN
            RAISE EXCEPTION 'fenced' USING ERRCODE = 'LR001', DETAIL = greatest(seen, c.highest)::text;
        ELSIF seen IS NULL OR seen < c.highest THEN
            INSERT INTO linchpin_realtime_fences AS f (consumer, number) VALUES (c.consumer, c.highest)
                ON CONFLICT (consumer) DO UPDATE SET number = greatest(f.number, excluded.number);
        END IF;
    END LOOP;
    FOR i IN 1 .. coalesce(array_length(names, 1), 0) LOOP
        SELECT t.epoch, t.position, t.expires INTO s FROM linchpin_realtime_streams AS t WHERE t.name = names[i];
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a stream was removed' USING ERRCODE = 'serialization_failure';
        END IF;
        IF s.expires <= now THEN
            DELETE FROM linchpin_realtime_frames AS f WHERE f.epoch = s.epoch;
            s.epoch := fresh[i];
            s.position := 0;
        END IF;
        its_epoch := s.epoch;
        SELECT f.position INTO its_position FROM linchpin_realtime_frames AS f
            WHERE f.epoch = s.epoch AND f.event = events[i];
        IF NOT FOUND THEN
            its_position := s.position + 1;
            INSERT INTO linchpin_realtime_frames (epoch, position, event, at, until, frame)
                VALUES (s.epoch, its_position, events[i], now, now + ages[i], bodies[i]);
            UPDATE linchpin_realtime_streams AS t
                SET epoch = s.epoch, position = its_position, last = events[i], expires = now + lives[i]
                WHERE t.name = names[i];
            -- Frames of the last half minute stay, so that nodes that are behind fill their holes.
            DELETE FROM linchpin_realtime_frames AS f
                WHERE f.epoch = s.epoch AND f.position <= its_position - sizes[i] AND f.at <= now - 30000;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION linchpin_realtime_entries(
    its_name TEXT, fresh TEXT, life BIGINT, now BIGINT, after BIGINT, most BIGINT
) RETURNS TABLE (
    its_epoch TEXT, its_position BIGINT, its_last TEXT,
    its_offset BIGINT, its_event TEXT, its_at BIGINT, its_frame BYTEA
) LANGUAGE plpgsql AS $$
DECLARE
    s RECORD;
BEGIN
    SELECT t.epoch, t.position, t.last, t.expires INTO s
        FROM linchpin_realtime_streams AS t WHERE t.name = its_name;
    IF NOT FOUND OR s.expires <= now THEN
        INSERT INTO linchpin_realtime_streams AS t (name, epoch, position, expires)
            VALUES (its_name, fresh, 0, now + life)
            ON CONFLICT (name) DO UPDATE SET
                epoch = CASE WHEN t.expires <= now THEN excluded.epoch ELSE t.epoch END,
                position = CASE WHEN t.expires <= now THEN 0 ELSE t.position END,
                last = CASE WHEN t.expires <= now THEN NULL ELSE t.last END,
                expires = greatest(t.expires, excluded.expires)
            RETURNING t.epoch, t.position, t.last, t.expires INTO s;
    ELSIF s.expires < now + life - 3600000 THEN
        UPDATE linchpin_realtime_streams AS t SET expires = greatest(t.expires, now + life)
            WHERE t.name = its_name;
    END IF;
    RETURN QUERY SELECT s.epoch, s.position, s.last, e.position, e.event, e.at, e.frame
        FROM (SELECT 1) AS one LEFT JOIN LATERAL (
            SELECT f.position, f.event, f.at, f.frame FROM linchpin_realtime_frames AS f
            WHERE f.epoch = s.epoch AND f.position > after AND f.position <= s.position AND f.until > now
            ORDER BY f.position LIMIT most
        ) AS e ON true;
END $$;

CREATE FUNCTION linchpin_realtime_replace(its_name TEXT, lost TEXT, fresh TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    UPDATE linchpin_realtime_streams AS t SET epoch = fresh, position = 0, last = NULL
        WHERE t.name = its_name AND t.epoch = lost;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM linchpin_realtime_frames AS f WHERE f.epoch = lost;
    RETURN true;
END $$;

CREATE FUNCTION linchpin_realtime_lock(its_stream TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(
        ('linchpin_realtime_presence'::regclass::oid::bigint - 2147483648)::int, hashtext(its_stream));
END $$;

CREATE FUNCTION linchpin_realtime_enter(
    its_stream TEXT, members TEXT[], its_node TEXT, now BIGINT, lease BIGINT
) RETURNS SETOF TEXT LANGUAGE plpgsql AS $$
BEGIN
    PERFORM linchpin_realtime_lock(its_stream);
    RETURN QUERY SELECT DISTINCT m.id FROM unnest(members) AS m(id) WHERE NOT EXISTS (
        SELECT 1 FROM linchpin_realtime_presence AS p WHERE p.stream = its_stream AND p.member = m.id);
    INSERT INTO linchpin_realtime_presence AS p (stream, member, node, since, until)
        SELECT DISTINCT its_stream, m.id, its_node, coalesce((
            SELECT min(o.since) FROM linchpin_realtime_presence AS o
            WHERE o.stream = its_stream AND o.member = m.id), now), now + lease
        FROM unnest(members) AS m(id)
        ON CONFLICT (stream, member, node) DO UPDATE SET until = excluded.until;
END $$;

CREATE FUNCTION linchpin_realtime_leave(its_stream TEXT, members TEXT[], its_node TEXT)
RETURNS SETOF TEXT LANGUAGE plpgsql AS $$
DECLARE
    gone TEXT[];
BEGIN
    PERFORM linchpin_realtime_lock(its_stream);
    WITH d AS (
        DELETE FROM linchpin_realtime_presence AS p
        WHERE p.stream = its_stream AND p.member = ANY(members) AND p.node = its_node
        RETURNING p.member
    ) SELECT array_agg(d.member) INTO gone FROM d;
    RETURN QUERY SELECT g.id FROM unnest(gone) AS g(id) WHERE NOT EXISTS (
        SELECT 1 FROM linchpin_realtime_presence AS p WHERE p.stream = its_stream AND p.member = g.id);
END $$;

CREATE FUNCTION linchpin_realtime_expire(its_stream TEXT, now BIGINT)
RETURNS SETOF TEXT LANGUAGE plpgsql AS $$
DECLARE
    gone TEXT[];
BEGIN
    -- Nearly always there is nothing to do.
    PERFORM 1 FROM linchpin_realtime_presence AS p WHERE p.stream = its_stream AND p.until <= now LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM linchpin_realtime_lock(its_stream);
    WITH d AS (
        DELETE FROM linchpin_realtime_presence AS p WHERE p.stream = its_stream AND p.until <= now
        RETURNING p.member
    ) SELECT array_agg(DISTINCT d.member) INTO gone FROM d;
    RETURN QUERY SELECT g.id FROM unnest(gone) AS g(id) WHERE NOT EXISTS (
        SELECT 1 FROM linchpin_realtime_presence AS p WHERE p.stream = its_stream AND p.member = g.id);
END $$;
"#;

/// Creates the tables if they are missing. Several nodes may start at once.
pub(super) async fn install(connection: &mut PgConnection) -> Result<()> {
    let mut transaction = connection.begin().await.map_err(super::error)?;
    // The lock ends with the transaction.
    sqlx::raw_sql(
        "SELECT pg_advisory_xact_lock(hashtext('linchpin_realtime'), hashtext(current_schema())); \
         CREATE TABLE IF NOT EXISTS linchpin_realtime_schema (version INTEGER NOT NULL)",
    )
    .execute(&mut *transaction)
    .await
    .map_err(super::error)?;
    let found: Option<i32> =
        sqlx::query_scalar("SELECT max(version) FROM linchpin_realtime_schema")
            .fetch_one(&mut *transaction)
            .await
            .map_err(super::error)?;
    match found {
        Some(VERSION) => {}
        Some(other) => {
            return Err(EngineError::failed(format!(
                "the tables linchpin_realtime_* are of version {other}, and this app needs version {VERSION}"
            )));
        }
        None => {
            sqlx::raw_sql(STATEMENTS)
                .execute(&mut *transaction)
                .await
                .map_err(super::error)?;
            sqlx::query("INSERT INTO linchpin_realtime_schema (version) VALUES ($1)")
                .bind(VERSION)
                .execute(&mut *transaction)
                .await
                .map_err(super::error)?;
        }
    }
    transaction.commit().await.map_err(super::error)
}
