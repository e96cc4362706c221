//! Settings from environment variables: `LINCHPIN_WEBHOOKS_ALLOW_HTTP` is `webhooks.allow_http`.

use std::ffi::OsString;
use std::time::Duration;

use linchpin::settings::{self, Reader, flag, list, number, seconds, set};

use super::config::WebhooksConfig;

/// The prefix of the variables of the plugin.
pub(super) const VARIABLES: [&str; 1] = ["LINCHPIN_WEBHOOKS_"];

/// The variables, without their prefix.
const READERS: &[(&str, Reader<WebhooksConfig>)] = &[
    ("MANAGEMENT_ROLE", |config, text| {
        text.clone_into(&mut config.management_role);
        Ok(())
    }),
    ("ALLOW_HTTP", |config, text| {
        set(&mut config.allow_http, flag(text))
    }),
    ("ALLOW_PRIVATE", |config, text| {
        set(&mut config.allow_private, flag(text))
    }),
    ("ALLOW_CIDRS", |config, text| {
        set(
            &mut config.allow_cidrs,
            list(text, "networks such as 10.0.0.0/8"),
        )
    }),
    ("SHOW_ADDRESSES", |config, text| {
        set(&mut config.show_addresses, flag(text))
    }),
    ("APP_SEES_TENANTS", |config, text| {
        set(&mut config.app_sees_tenants, flag(text))
    }),
    ("COMPAT_HEADERS", |config, text| {
        set(&mut config.compat_headers, flag(text))
    }),
    ("SCHEDULE", |config, text| {
        let seconds: Vec<u64> = list(text, "whole seconds, separated by commas")?;
        config.schedule = seconds.into_iter().map(Duration::from_secs).collect();
        Ok(())
    }),
    ("DISABLE_AFTER", |config, text| {
        set(&mut config.disable_after, seconds(text))
    }),
    ("WORKERS", |config, text| {
        set(&mut config.workers, number(text))
    }),
    ("RETENTION", |config, text| {
        set(&mut config.retention, seconds(text))
    }),
];

/// Reads the settings from these variables.
pub(super) fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> WebhooksConfig {
    let mut config = WebhooksConfig {
        of_environment: true,
        ..WebhooksConfig::default()
    };
    config.problems = settings::read(VARIABLES[0], READERS, &mut config, variables);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> WebhooksConfig {
        read(variables.iter().map(|(name, value)| {
            (
                OsString::from(format!("LINCHPIN_WEBHOOKS_{name}")),
                OsString::from(value),
            )
        }))
    }

    #[test]
    fn every_setting_is_read() {
        let config = of(&[
            ("MANAGEMENT_ROLE", "owner"),
            ("ALLOW_HTTP", "true"),
            ("ALLOW_PRIVATE", "true"),
            ("ALLOW_CIDRS", "10.0.0.0/8, ::1/128"),
            ("SHOW_ADDRESSES", "true"),
            ("APP_SEES_TENANTS", "true"),
            ("COMPAT_HEADERS", "false"),
            ("SCHEDULE", "1, 60"),
            ("DISABLE_AFTER", "7200"),
            ("WORKERS", "4"),
            ("RETENTION", "86400"),
        ]);
        assert!(config.check(true).is_empty(), "{:?}", config.check(true));
        assert_eq!(config.management_role, "owner");
        assert!(config.allow_http && config.show_addresses && config.app_sees_tenants);
        assert!(!config.compat_headers);
        assert_eq!(
            (
                config.allow_cidrs.len(),
                config.max_attempts(),
                config.workers
            ),
            (2, 3, 4)
        );
        assert_eq!(config.disable_after, Duration::from_hours(2));
        assert_eq!(config.retention, Duration::from_hours(24));
    }

    #[test]
    fn all_invalid_settings_are_reported_at_once() {
        let config = of(&[
            ("ALLOW_HTP", "true"),
            ("ALLOW_CIDRS", "10.0.0.0/8,everything"),
            ("WORKERS", "0"),
            ("RETENTION", "-1"),
        ]);
        let problems = config.check(false);
        let keys: Vec<&str> = problems
            .iter()
            .map(|problem| problem.path.as_str())
            .collect();
        assert_eq!(
            keys,
            [
                "LINCHPIN_WEBHOOKS_ALLOW_CIDRS",
                "LINCHPIN_WEBHOOKS_ALLOW_HTP",
                "LINCHPIN_WEBHOOKS_RETENTION",
                "webhooks.workers",
            ]
        );
    }

    #[test]
    fn private_networks_need_a_second_setting_in_production() {
        let config = of(&[("ALLOW_CIDRS", "10.0.0.0/8")]);
        assert!(config.check(false).is_empty());
        assert_eq!(config.check(true).len(), 1);
    }
}
