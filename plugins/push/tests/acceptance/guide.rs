//! The code of the guide's chapter.

use linchpin::{Adapters, Cx, Plugin, Result};
use linchpin_push::{Priority, Push, PushConfig, PushMessage, PushQueue};

use crate::receiver::Receiver;
use crate::test_app::{Browser, TestApp};

/// Messages to the browsers of users. The service worker is served at `/sw.js`.
fn push() -> Push {
    Push::new(PushConfig::from_env()).serve_worker()
}

/// Notifies a customer that an order is on its way.
async fn order_sent(adapters: &Adapters, cx: &Cx, customer: &str, order: &str) -> Result<usize> {
    let message = PushMessage::new(customer, "Your order is on its way")
        .url(format!("/orders/{order}"))
        .dedup_key(format!("order-{order}"))
        .priority(Priority::High);
    adapters.provided::<PushQueue>()?.send(cx, &message).await
}

#[tokio::test]
async fn app_code_can_send_a_message() {
    let (test_app, service) = (TestApp::start().await, Receiver::start().await);
    test_app
        .subscribe("ada", &Browser::new(), &service.url())
        .await;
    let cx = Cx::system("a test");
    let sent = order_sent(test_app.app.adapters(), &cx, "ada", "17").await;
    assert_eq!(sent.unwrap(), 1);
    assert_eq!(service.until(1).await[0].header("urgency"), "high");
}

#[test]
fn the_plugin_of_the_guide_reads_the_environment() {
    assert_eq!(push().variables(), ["LINCHPIN_PUSH_"]);
}
