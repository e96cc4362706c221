//! Tests of the shop over HTTP: on SQLite, on PostgreSQL with the feature, and of the README.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use example_support::client::Client;
use example_support::seeded::Seeded;
use example_support::session::golden;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_shop");

fn start(variables: &[(&str, &str)]) -> Seeded {
    Seeded::start(PROGRAM, "4 products, 4 orders, 2 vouchers", variables)
}

#[test]
fn the_shop_works_on_sqlite() {
    check_shop(&start(&[]));
}

#[cfg(feature = "postgres")]
#[test]
fn the_shop_works_on_postgres() {
    check_shop(&start(&[(
        "LINCHPIN_DATABASE_URL",
        &example_support::postgres::fresh_url(),
    )]));
}

/// Checks the behaviour on a store.
fn check_shop(app: &Seeded) {
    let (anybody, alice, staff) = (
        Client::anonymous(&app.server),
        app.user("alice", &[]),
        app.user("sam", &["staff"]),
    );

    // Anonymous callers may read products, but not change them.
    let found = anybody.ask("GET", "/products/find?q=mug", "").body;
    assert_eq!(
        (&found["items"][0]["sku"], &found["items"][1]["sku"]),
        (&json!("MU-001"), &json!("MU-002"))
    );
    let kitchen = json!({"category": "kitchen", "products": 3, "cheapest": 950, "dearest": 3450});
    assert_eq!(anybody.ask("GET", "/products/prices", "").body[0], kitchen);
    assert_eq!(alice.ask("DELETE", "/products/x", "").status, 403);
    assert_eq!(anybody.ask("GET", "/orders", "").status, 401);

    // Import: the first call creates, the second updates, an invalid number does neither.
    let product = |price: i64| json!({"sku": "MU-009", "name": "Mug", "category": "kitchen", "priceCents": price});
    let created = staff.send("POST", "/products/import", product(700));
    assert_eq!(
        (created.status, &created.body["created"]),
        (201, &json!(true))
    );
    let changed = staff.send("POST", "/products/import", product(650));
    assert_eq!(
        (
            changed.status,
            &changed.body["created"],
            &changed.body["entity"]["priceCents"]
        ),
        (200, &json!(false), &json!(650))
    );
    assert_eq!(created.body["entity"]["id"], changed.body["entity"]["id"]);
    assert_eq!(
        staff.send("POST", "/products/import", product(-1)).body["details"][0]["path"],
        "priceCents"
    );

    // Stock: eleven concurrent callers take one of ten pieces each.
    let id = created.body["entity"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert_eq!(
        staff
            .ask("POST", &format!("/products/{id}/restock"), "")
            .body["stock"],
        10
    );
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let take = || {
            staff
                .ask("POST", &format!("/products/{id}/take"), "")
                .status
        };
        let takers: Vec<_> = (0..11).map(|_| scope.spawn(take)).collect();
        takers
            .into_iter()
            .map(|taker| taker.join().expect("an answer"))
            .collect()
    });
    assert_eq!(answers.iter().filter(|&&status| status == 200).count(), 10);
    assert_eq!(answers.iter().filter(|&&status| status == 400).count(), 1);

    // A cart and its lines. Other callers cannot read it.
    let cart = alice.send("POST", "/carts", json!({"lines": []}));
    let cart = format!("/carts/{}", cart.body["id"].as_str().expect("an id"));
    assert_eq!(
        alice
            .send(
                "POST",
                &format!("{cart}/lines-add"),
                json!({"sku": "TE-001", "quantity": 1})
            )
            .status,
        201
    );
    assert_eq!(
        alice
            .send(
                "POST",
                &format!("{cart}/lines-add"),
                json!({"sku": "TE-001", "quantity": 1})
            )
            .status,
        409
    );
    assert_eq!(
        alice
            .send(
                "PATCH",
                &format!("{cart}/lines-update/TE-001"),
                json!({"quantity": 2})
            )
            .body["quantity"],
        2
    );
    assert_eq!(
        staff.ask("GET", &format!("{cart}/lines-list"), "").status,
        404
    );
    assert_eq!(
        alice
            .ask("DELETE", &format!("{cart}/lines-remove/TE-001"), "")
            .status,
        204
    );
    assert_eq!(
        alice.ask("GET", &format!("{cart}/lines-list"), "").body,
        json!([])
    );

    // A voucher: of five concurrent callers with its code, one gets it.
    let redeemed: Vec<_> = std::thread::scope(|scope| {
        let redeem = || {
            alice
                .send("POST", "/vouchers/redeem", json!({"code": "WELCOME-5"}))
                .body
        };
        let callers: Vec<_> = (0..5).map(|_| scope.spawn(redeem)).collect();
        callers
            .into_iter()
            .map(|caller| caller.join().expect("an answer"))
            .filter(|body| !body.is_null())
            .collect()
    });
    assert_eq!(redeemed, [json!({"code": "WELCOME-5", "cents": 500})]);
    assert!(
        alice
            .send("POST", "/vouchers/redeem", json!({"code": "LAST-YEAR"}))
            .body
            .is_null()
    );

    // Weeks and relations.
    let weeks = staff.ask("GET", "/orders/by-week", "").body;
    assert_eq!(
        weeks[0],
        json!({"placedAt": "2026-03-02", "orders": 2, "revenueCents": 5350})
    );
    assert_eq!(
        weeks[1],
        json!({"placedAt": "2026-03-09", "orders": 2, "revenueCents": 6950})
    );
    let newest = staff.ask("GET", "/orders?limit=1&include=product", "").body;
    assert_eq!(newest["items"][0]["product"]["name"], "The blue notebook");
    let mug = staff
        .ask(
            "GET",
            &format!(
                "/products/{}?include=orders",
                found["items"][0]["id"].as_str().expect("an id")
            ),
            "",
        )
        .body;
    assert_eq!(
        mug["orders"]["items"].as_array().map(Vec::len),
        Some(2),
        "{mug}"
    );
}

#[test]
fn an_order_reaches_the_warehouse() {
    let warehouse = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}/orders",
        warehouse.local_addr().expect("an address")
    );
    let app = start(&[
        ("LINCHPIN_WEBHOOKS_ALLOW_HTTP", "true"),
        ("LINCHPIN_WEBHOOKS_ALLOW_CIDRS", "127.0.0.0/8"),
    ]);
    let (alice, staff) = (app.user("alice", &[]), app.user("sam", &["staff"]));
    let endpoint = json!({"url": url, "events": ["shop.orders.created"]});
    let refused = alice.send("POST", "/webhooks/endpoints", endpoint.clone());
    assert_eq!(refused.status, 403);
    let made = staff.send("POST", "/webhooks/endpoints", endpoint);
    assert_eq!(made.status, 201, "{}", made.body);
    let product = staff.ask("GET", "/products?limit=1", "").body["items"][0]["id"].clone();
    let order = json!({"productId": product, "quantity": 2, "totalCents": 1980});
    let order = staff.send("POST", "/orders", order);
    assert_eq!(order.status, 201, "{}", order.body);

    let (mut socket, _) = warehouse.accept().expect("a delivery");
    let mut request = String::new();
    let mut lines = BufReader::new(socket.try_clone().expect("a second handle"));
    while !request.ends_with("\r\n\r\n") {
        assert!(
            lines.read_line(&mut request).expect("a line") > 0,
            "{request}"
        );
    }
    let length = request
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        })
        .expect("a length");
    let mut body = vec![0; length];
    lines.read_exact(&mut body).expect("the body");
    socket
        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        .expect("an answer");
    assert!(
        request.starts_with("POST /orders HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("webhook-signature: v1,"), "{request}");
    let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["type"], "shop.orders.created");
    assert_eq!(body["data"], order.body);
}

#[test]
fn the_readme_matches_the_program() {
    start(&[]).check_readme("shop");
}

#[cfg(feature = "postgres")]
#[test]
fn the_readme_matches_the_program_on_postgres() {
    start(&[(
        "LINCHPIN_DATABASE_URL",
        &example_support::postgres::fresh_url(),
    )])
    .check_readme("shop");
}

#[test]
fn the_golden_openapi_document_is_up_to_date() {
    golden(PROGRAM, "shop");
}
