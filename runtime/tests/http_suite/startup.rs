//! Start-up errors, which are reported before a port is opened.

use linchpin::http::{AuthDesc, HttpState, endpoints, service};

use crate::fixture::{BLOG, adapters};

async fn refused(change: impl FnOnce(&mut Vec<linchpin::http::Endpoint>)) -> String {
    let (store, _folder) = crate::fresh();
    let adapters = adapters(&store).await;
    let mut mounted = endpoints(&BLOG, "/", &adapters);
    for endpoint in &mut mounted {
        endpoint.policy.auth = AuthDesc::None;
    }
    change(&mut mounted);
    match service(mounted, HttpState::new(adapters)) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => {
            std::error::Error::source(&error).map_or_else(String::new, ToString::to_string)
        }
    }
}

#[tokio::test]
async fn a_valid_route_table_is_accepted() {
    assert_eq!(refused(|_| {}).await, "accepted");
}

#[tokio::test]
async fn names_without_a_check_are_refused() {
    let text = refused(|all| all[0].policy.auth = AuthDesc::Named("nobody")).await;
    assert!(
        text.contains("POST /posts")
            && text.contains("`nobody`")
            && text.contains("tests/fixture.rs:1"),
        "{text}"
    );
}

#[tokio::test]
async fn duplicates_are_refused_and_both_named() {
    let text = refused(|all| {
        let mut twin = all.iter().find(|e| e.name == "get").unwrap().clone();
        twin.name = "twin".to_owned();
        twin.path = "/posts/{other}".to_owned();
        all.push(twin);
    })
    .await;
    assert!(
        text.contains("duplicate route GET /posts/{other}")
            && text.contains("get")
            && text.contains("twin"),
        "{text}"
    );
}

#[tokio::test]
async fn a_mount_prefixes_every_path() {
    let (store, _folder) = crate::fresh();
    let adapters = adapters(&store).await;
    let all = endpoints(&BLOG, "/api//v1/", &adapters);
    assert!(
        all.iter().all(|e| e.path.starts_with("/api/v1/")),
        "{all:?}"
    );
    assert!(all.iter().any(|e| e.path == "/api/v1/posts/{id}/publish"));
}
