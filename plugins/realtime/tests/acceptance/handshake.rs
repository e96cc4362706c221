//! Who may connect.

use serde_json::json;

use crate::bed::Bed;
use crate::socket::Socket;

#[tokio::test]
async fn a_handshake_with_a_bad_part_is_refused() {
    let bed = Bed::start().await;
    let address = bed.app.address();
    let refused = async |path: &str, headers: &[(&str, &str)]| {
        let refused = Socket::handshake(address, path, headers)
            .await
            .err()
            .expect("refused");
        (refused.status, refused.code)
    };
    let answer = |status: u16, code: &str| (status, code.to_owned());
    let version = refused("/__ws", &[("sec-websocket-version", "12")]).await;
    assert_eq!(version, answer(400, "validation_failed"));
    let token = refused("/__ws?token=secret", &[]).await;
    assert_eq!(token, answer(400, "unknown_parameter"));
    let bearer = refused("/__ws", &[("authorization", "Bearer bad")]).await;
    assert_eq!(bearer, answer(401, "unauthorized"));
    let protocol = refused("/__ws", &[("sec-websocket-protocol", "chat")]).await;
    assert_eq!(protocol, answer(400, "validation_failed"));
    let http = linchpin::testing::Client::new(&bed.app);
    let plain = http.get("/__ws").await.unwrap();
    assert_eq!(plain.status(), 426);
    assert_eq!(plain.json().unwrap()["code"], "upgrade_required");
}

#[tokio::test]
async fn a_cookie_needs_a_page_of_the_app() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let address = bed.app.address();
    let cookie = format!("__Host-token={}", ada.token);
    let own = format!("http://{address}");
    let headers = [("cookie", cookie.as_str()), ("origin", own.as_str())];
    let connected = Socket::open(address, &headers).await.next().await;
    assert_eq!(connected["userId"], json!(ada.id));
    assert_eq!(connected["pending"], false);
    assert_eq!(connected["protocol"], 1);
    let bearer = format!("Bearer {}", ada.token);
    for headers in [
        vec![("cookie", cookie.as_str())],
        vec![("cookie", cookie.as_str()), ("origin", "null")],
        vec![("cookie", cookie.as_str()), ("origin", "https://evil.test")],
        vec![
            ("authorization", bearer.as_str()),
            ("origin", "https://evil.test"),
        ],
    ] {
        let refused = Socket::handshake(address, "/__ws", &headers)
            .await
            .err()
            .expect("refused");
        assert_eq!(
            (refused.status, refused.code.as_str()),
            (403, "origin_not_allowed")
        );
    }
    bed.connect(&ada).await;
}

#[tokio::test]
async fn endpoints_are_in_the_document_of_the_api() {
    let bed = Bed::start().await;
    let http = linchpin::testing::Client::new(&bed.app);
    let document = http.get("/openapi.json").await.unwrap().json().unwrap();
    let socket = &document["paths"]["/__ws"]["get"];
    let upgraded = &socket["responses"]["101"]["headers"]["Upgrade"]["schema"];
    assert_eq!(upgraded["const"], "websocket", "{socket}");
    for status in ["401", "403", "426", "429", "503"] {
        assert!(
            socket["responses"][status].is_object(),
            "{status}: {socket}"
        );
    }
    let refresh = &document["paths"]["/__ws/refresh"]["post"];
    assert!(refresh["responses"]["204"].is_object(), "{refresh}");
    let body = &refresh["requestBody"]["content"]["application/json"]["schema"];
    assert!(body["$ref"].is_string(), "{refresh}");
    bed.app.stop().await.unwrap();
}
