//! The settings of the plugin, and their checks.

use std::time::Duration;

use linchpin::Problem;
use linchpin_safe_client::{IpNet, Roots};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// The settings of [`Webhooks`](super::Webhooks), as `webhooks.*`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebhooksConfig {
    /// `management_role`: the role that may manage endpoints. The default is `admin`.
    pub management_role: String,
    /// `allow_http`: whether endpoints may have the scheme `http`. The default is `false`.
    pub allow_http: bool,
    /// `allow_private`: whether `allow_cidrs` is allowed in production. The default is `false`.
    pub allow_private: bool,
    /// `allow_cidrs`: networks that endpoints may be in although they are not public. None by
    /// default.
    pub allow_cidrs: Vec<IpNet>,
    /// `show_addresses`: whether attempts show the address of the connection. The default is
    /// `false`.
    pub show_addresses: bool,
    /// `app_sees_tenants`: whether an endpoint without a tenant gets the events of all tenants. The
    /// default is `false`.
    pub app_sees_tenants: bool,
    /// `compat_headers`: whether requests have the headers `x-webhook-*`. The default is `true`.
    pub compat_headers: bool,
    /// `schedule`: the pauses between two attempts. By default 5 s, 5 min, 30 min, 2 h, 5 h, 10 h
    /// and 10 h, so there are eight attempts.
    pub schedule: Vec<Duration>,
    /// `disable_after`: an endpoint that fails for so long without one success is disabled. The
    /// default is 5 days.
    pub disable_after: Duration,
    /// `workers`: the most attempts of this process at the same time. One endpoint, and all endpoints
    /// of one tenant together, take at most half of them. The default is 32.
    pub workers: usize,
    /// `retention`: how long messages and deliveries are kept. The default is 90 days.
    pub retention: Duration,
    /// The root certificates that endpoints are checked against. The default is those of the
    /// system.
    pub roots: Roots,
    /// Mistakes in the variables of the environment.
    pub(super) problems: Vec<Problem>,
    /// Whether the variables of the environment were read.
    pub(super) of_environment: bool,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        let schedule = [5, 300, 1_800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR];
        Self {
            management_role: "admin".to_owned(),
            allow_http: false,
            allow_private: false,
            allow_cidrs: Vec::new(),
            show_addresses: false,
            app_sees_tenants: false,
            compat_headers: true,
            schedule: schedule.map(Duration::from_secs).to_vec(),
            disable_after: Duration::from_secs(5 * DAY),
            workers: 32,
            retention: Duration::from_secs(90 * DAY),
            roots: Roots::default(),
            problems: Vec::new(),
            of_environment: false,
        }
    }
}

impl WebhooksConfig {
    /// The settings of the environment: `LINCHPIN_WEBHOOKS_MANAGEMENT_ROLE` is
    /// `webhooks.management_role`. Lists are separated by commas, times are seconds. Mistakes are
    /// errors at start-up.
    pub fn from_env() -> Self {
        super::env::read(std::env::vars_os())
    }

    /// The mistakes of the settings, each with its key.
    pub(super) fn check(&self, production: bool) -> Vec<Problem> {
        let mut problems = self.problems.clone();
        let mut wrong = |key: &str, text: &str| {
            problems.push(Problem::new(format!("webhooks.{key}"), "range", text));
        };
        if self.management_role.is_empty() {
            wrong("management_role", "must name a role");
        }
        if production && !self.allow_cidrs.is_empty() && !self.allow_private {
            wrong(
                "allow_cidrs",
                "opens private networks to customers: remove it, or set `webhooks.allow_private`",
            );
        }
        if self.schedule.len() > 30 || self.schedule.iter().any(|pause| pause.as_secs() > 7 * DAY) {
            wrong("schedule", "has at most 30 pauses of at most 7 days");
        }
        if !(1..=1_000).contains(&self.workers) {
            wrong("workers", "must be 1 to 1000");
        }
        let most = Duration::from_secs(3_650 * DAY);
        for (key, time) in [
            ("disable_after", self.disable_after),
            ("retention", self.retention),
        ] {
            if !(Duration::from_secs(HOUR)..=most).contains(&time) {
                wrong(key, "must be 1 hour to 10 years");
            }
        }
        problems
    }

    /// The number of attempts after which a delivery is dead.
    pub(crate) fn max_attempts(&self) -> i64 {
        i64::try_from(self.schedule.len() + 1).unwrap_or(i64::MAX)
    }
}
