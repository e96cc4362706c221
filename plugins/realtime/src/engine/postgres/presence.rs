//! Renews the leases of many streams at once.

use std::collections::HashMap;

use super::{Inner, millis};
use crate::engine::{Attendance, LEASE, PresenceChanges, Result};

/// Enters the users of streams. Each stream has a range of the list of users. The streams are
/// locked in the order of their names, so that nodes do not deadlock.
const ENTER: &str = "SELECT s.name, e.member \
     FROM unnest($1::text[], $2::int[], $3::int[]) AS s(name, first, last), \
     LATERAL linchpin_realtime_enter(s.name, ($4::text[])[s.first : s.last], $5, $6, $7) AS e(member)";
/// Removes the expired leases of streams.
const EXPIRE: &str = "SELECT s.name, e.member FROM unnest($1::text[]) AS s(name), \
     LATERAL linchpin_realtime_expire(s.name, $2) AS e(member)";

pub(super) async fn renew(inner: &Inner, all: &[Attendance]) -> Result<Vec<PresenceChanges>> {
    let now = (inner.clock)().millis();
    let mut sorted: Vec<&Attendance> = all.iter().collect();
    sorted.sort_by(|one, other| one.stream.name().cmp(other.stream.name()));
    let (mut names, mut firsts, mut lasts) = (Vec::new(), Vec::new(), Vec::new());
    let mut users: Vec<&str> = Vec::new();
    for one in sorted.iter().filter(|one| !one.users.is_empty()) {
        names.push(one.stream.name());
        // Array indexes in SQL begin at 1.
        firsts.push(i32::try_from(users.len() + 1).unwrap_or(i32::MAX));
        users.extend(one.users.iter().map(String::as_str));
        lasts.push(i32::try_from(users.len()).unwrap_or(i32::MAX));
    }
    let enter = sqlx::query_as::<_, (String, String)>(ENTER)
        .bind(names)
        .bind(firsts)
        .bind(lasts)
        .bind(users)
        .bind(inner.node.as_str())
        .bind(now)
        .bind(millis(LEASE));
    let arrived = inner.run(enter.fetch_all(&inner.pool)).await?;
    let names: Vec<&str> = sorted.iter().map(|one| one.stream.name()).collect();
    let expire = sqlx::query_as::<_, (String, String)>(EXPIRE)
        .bind(names)
        .bind(now);
    let left = inner.run(expire.fetch_all(&inner.pool)).await?;
    let mut changes: HashMap<String, PresenceChanges> = HashMap::new();
    for (name, user) in arrived {
        changes.entry(name).or_default().arrived.push(user);
    }
    for (name, user) in left {
        changes.entry(name).or_default().left.push(user);
    }
    let mut changes_of = |one: &Attendance| changes.remove(one.stream.name()).unwrap_or_default();
    Ok(all.iter().map(&mut changes_of).collect())
}
