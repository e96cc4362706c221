//! Tests of the metrics of deliveries and of the events that lead to them.

use std::sync::OnceLock;
use std::time::Duration;

use linchpin::{Error, Result};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;

use crate::bed::TestApp;
use crate::receiver::{Plan, Receiver};

/// Installs the recorder for the metrics of the process; call it before the app starts.
fn recorder() -> Result<PrometheusHandle> {
    PrometheusBuilder::new()
        .install_recorder()
        .map_err(Error::internal)
}

/// The value of the metric whose line begins with this text.
fn value(text: &str, metric: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(metric));
    let line = line.unwrap_or_else(|| panic!("no {metric} in:\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn metrics_of_deliveries_contain_no_titles_tenants_ids_or_urls() {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    let handle = RECORDER.get_or_init(|| recorder().unwrap());
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::status(200), Plan::status(500)]);
    test_app.order("a title").await;
    test_app.until("delivered").await;
    test_app.order("a title").await;
    test_app.until("failed").await;
    // Attempts are counted right after their results are committed.
    let counted = "linchpin_webhooks_deliveries_total{status=\"failed\"";
    while !handle.render().contains(counted) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let text = handle.render();
    for metric in [
        "linchpin_webhooks_attempts_total{result=\"success\",trigger=\"schedule\"}",
        "linchpin_webhooks_attempts_total{result=\"status\",trigger=\"schedule\"}",
        "linchpin_webhooks_deliveries_total{status=\"delivered\",reason=\"\"}",
        "linchpin_webhooks_deliveries_total{status=\"failed\",reason=\"\"}",
        "linchpin_events_delivered_total{consumer=\"webhooks\"}",
    ] {
        assert!(value(&text, metric) >= 1.0, "{metric}");
    }
    let waiting = "linchpin_events_oldest_seconds{consumer=\"webhooks\"}";
    assert!(value(&text, waiting).abs() < 1.0);
    for histogram in [
        "linchpin_webhooks_attempt_seconds",
        "linchpin_events_delay_seconds",
    ] {
        assert!(text.contains(histogram), "{histogram}");
    }
    for secret in [
        "a title",
        "t1",
        made["id"].as_str().unwrap(),
        &receiver.url(),
    ] {
        assert!(!text.contains(secret), "{secret} is in:\n{text}");
    }
}
