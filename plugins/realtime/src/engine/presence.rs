//! Presence: leases of users.

use std::time::Duration;

use linchpin::Timestamp;

use super::Stream;

/// How long a user counts as present on a node after the last renewal.
pub const LEASE: Duration = Duration::from_secs(45);

/// The interval at which a node renews its leases. To renew, it enters its users again.
pub const RENEWAL: Duration = Duration::from_secs(15);

/// A user who is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of the user.
    pub user: String,
    /// The time at which the user arrived on the first of its nodes.
    pub since: Timestamp,
}

/// The users who are present in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// The users, the earliest arrivals first.
    pub users: Vec<Member>,
    /// The number of all users. It is greater than the length of `users` if that list was cut.
    pub count: usize,
}

/// The users of a stream who are present on a node.
#[derive(Clone, Debug)]
pub struct Attendance {
    /// The stream.
    pub stream: Stream,
    /// The users.
    pub users: Vec<String>,
}

/// The changes that a renewal has found in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresenceChanges {
    /// The users who had no lease on any node. The caller announces their arrival.
    pub arrived: Vec<String>,
    /// The users who have no lease left. The caller announces their departure.
    pub left: Vec<String>,
}
