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
    /// `allow_cidrs`: private networks in which endpoints may be. The default is none.
    pub allow_cidrs: Vec<IpNet>,
    /// `show_addresses`: whether attempts show the IP address of the connection. The default is
    /// `false`.
    pub show_addresses: bool,
    /// `app_sees_tenants`: whether an endpoint without a tenant gets the events of all tenants. The
    /// default is `false`.
    pub app_sees_tenants: bool,
    /// `compat_headers`: whether requests have the headers `x-webhook-*`. The default is `true`.
    pub compat_headers: bool,
    /// `schedule`: the pauses between attempts. The default is 5 s, 5 min, 30 min, 2 h, 5 h, 10 h
    /// and 10 h: eight attempts.
    pub schedule: Vec<Duration>,
    /// `disable_after`: an endpoint that fails for this long without a success is disabled. The
    /// default is 5 days.
    pub disable_after: Duration,
    /// `workers`: the maximum number of concurrent attempts of this process. One endpoint, and all
    /// endpoints of one tenant together, take at most half of them. The default is 32.
    pub workers: usize,
    /// `retention`: how long messages and deliveries are kept. The default is 90 days.
    pub retention: Duration,
    /// The trusted root certificates for connections to endpoints. The default is those of the
    /// operating system.
    pub roots: Roots,
    /// Invalid environment variables.
    pub(super) problems: Vec<Problem>,
    /// Whether the environment variables were read.
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
    /// Reads the settings from environment variables: `LINCHPIN_WEBHOOKS_MANAGEMENT_ROLE` is
    /// `webhooks.management_role`. Lists are separated by commas, times are in seconds. Invalid
    /// values are errors at start-up.
    pub fn from_env() -> Self {
        super::env::read(std::env::vars_os())
    }

    /// Checks the settings. Each problem names its setting.
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
                "allows customers to reach private networks: remove it, or set \
                 `webhooks.allow_private` to `true`",
            );
        }
        if self.schedule.len() > 30 || self.schedule.iter().any(|pause| pause.as_secs() > 7 * DAY) {
            wrong(
                "schedule",
                "must have at most 30 pauses, each of at most 7 days",
            );
        }
        if !(1..=1_000).contains(&self.workers) {
            wrong("workers", "must be 1 to 1000");
        }
        let max_time = Duration::from_secs(3_650 * DAY);
        for (key, time) in [
            ("disable_after", self.disable_after),
            ("retention", self.retention),
        ] {
            if !(Duration::from_secs(HOUR)..=max_time).contains(&time) {
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
