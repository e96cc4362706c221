//! A client that submits the forms of the HTML pages, without a browser, and checks that apply to
//! every page.

use std::collections::BTreeMap;

use crate::server::{GOOD, Reply, Server};

pub const UI: &str = "/auth/ui";

/// A client that behaves like a browser: it stores cookies and fills in forms.
pub struct Visitor<'a> {
    app: &'a Server,
    pub cookies: BTreeMap<String, String>,
    pub agent: &'static str,
}

impl<'a> Visitor<'a> {
    pub fn new(app: &'a Server) -> Self {
        Self {
            app,
            cookies: BTreeMap::new(),
            agent: "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0 Safari/537.36",
        }
    }

    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let reply = self.exchange(method, path, more, body).await;
        assert!(reply.status < 500, "{path}: {reply:?}");
        reply
    }

    /// Sends a form to an app that may return 503.
    pub async fn may_fail(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let origin = format!("http://{}", self.app.host());
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin.as_str()),
        ];
        self.exchange("POST", &format!("{UI}{path}"), &headers, &form(fields))
            .await
    }

    async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let cookies = cookies.join("; ");
        let mut headers = vec![("user-agent", self.agent)];
        if !cookies.is_empty() {
            headers.push(("cookie", &cookies));
        }
        headers.extend(more);
        let reply = self.app.any(method, path, &headers, body).await;
        for set in reply.headers.get_all("set-cookie") {
            let (pair, rest) = set.to_str().unwrap().split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if rest.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        if path.starts_with(UI) && !path.contains("/assets/") {
            check_page(path, &reply);
        }
        reply
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        self.send("GET", &format!("{UI}{path}"), &[], "").await
    }

    /// Follows a link on a page of the app.
    pub async fn follow(&mut self, path: &str) -> Reply {
        self.send(
            "GET",
            &format!("{UI}{path}"),
            &[("sec-fetch-site", "same-origin")],
            "",
        )
        .await
    }

    /// Follows a redirect of a provider, or of the callback after it.
    pub async fn sent_back(&mut self, address: &str) -> Reply {
        let path = address.strip_prefix(crate::issuer::APP).unwrap_or(address);
        self.send("GET", path, &[("sec-fetch-site", "cross-site")], "")
            .await
    }

    /// The token in the forms of a page.
    pub async fn csrf(&mut self, page: &str) -> String {
        let page = self.get(page).await;
        hidden(&page, "csrf").unwrap_or_else(|| panic!("no form in {}", text(&page)))
    }

    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let origin = format!("http://{}", self.app.host());
        self.post_from(&origin, path, fields).await
    }

    pub async fn post_from(&mut self, origin: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let body = form(fields);
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin),
        ];
        self.send("POST", &format!("{UI}{path}"), &headers, &body)
            .await
    }

    /// Opens a page, fills in a form on the page, and submits the form to `path`.
    pub async fn fill(&mut self, page: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let csrf = self.csrf(page).await;
        let all: Vec<(&str, &str)> = [("csrf", csrf.as_str())]
            .into_iter()
            .chain(fields.iter().copied())
            .collect();
        self.post(path, &all).await
    }

    pub async fn sign_up(&mut self, email: &str) {
        let reply = self
            .fill(
                "/register",
                "/register",
                &[("identifier", email), ("password", GOOD)],
            )
            .await;
        assert_eq!(
            (reply.status, reply.header("location").as_str()),
            (303, "/auth/ui/security"),
            "{reply:?}"
        );
    }

    pub async fn sign_in(&mut self, email: &str, password: &str) -> Reply {
        self.fill(
            "/sign-in",
            "/sign-in",
            &[("identifier", email), ("password", password)],
        )
        .await
    }

    pub async fn is_signed_in(&mut self) -> bool {
        self.get("/security").await.status == 200
    }
}

pub fn form(fields: &[(&str, &str)]) -> String {
    let encode_byte = |b: u8| {
        if b.is_ascii_alphanumeric() {
            char::from(b).to_string()
        } else {
            format!("%{b:02X}")
        }
    };
    let encode = |text: &str| text.bytes().map(encode_byte).collect::<String>();
    fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect::<Vec<_>>()
        .join("&")
}

pub fn text(page: &Reply) -> String {
    String::from_utf8(page.body.to_vec()).unwrap()
}

pub fn hidden(page: &Reply, name: &str) -> Option<String> {
    let text = text(page);
    let (_, rest) = text.split_once(&format!("name=\"{name}\" value=\""))?;
    Some(rest.split('"').next().unwrap_or_default().to_owned())
}

/// Checks the security headers and the content of a page or redirect.
fn check_page(path: &str, reply: &Reply) {
    let policy = reply.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{path}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(
        (
            reply.header("cache-control").as_str(),
            reply.header("x-content-type-options").as_str()
        ),
        ("no-store", "nosniff")
    );
    assert_eq!(reply.header("x-frame-options"), "DENY");
    let text = text(reply);
    assert!(!text.contains(GOOD), "{path} shows a password: {text}");
    for inline in [
        "style=",
        "onclick",
        "onload",
        "onerror=\"",
        "<script>",
        "javascript:",
    ] {
        assert!(!text.contains(inline), "{path} contains {inline}: {text}");
    }
    if reply.status != 303 {
        assert_eq!(
            reply.header("content-type"),
            "text/html; charset=utf-8",
            "{path}: {reply:?}"
        );
        check_accessibility(path, &text);
    }
}

/// Checks that every field has a label, and that the page has a language, a title, a heading and a
/// live region for messages.
fn check_accessibility(path: &str, page: &str) {
    assert!(
        page.starts_with("<!DOCTYPE html><html lang=\"en\">")
            && page.contains("<title>")
            && page.contains("<h1>"),
        "{path}: {page}"
    );
    assert!(
        page.contains("aria-live=\"polite\"") && page.contains("<main id=\"main\""),
        "{path}: {page}"
    );
    for input in page.split("<input ").skip(1) {
        let tag = input.split('>').next().unwrap_or_default();
        if tag.contains("type=\"hidden\"") || tag.ends_with(" hidden") {
            continue;
        }
        let id = tag
            .split("id=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap_or_else(|| panic!("{path}: no id in {tag}"));
        assert!(
            page.contains(&format!("<label for=\"{id}\">")),
            "{path}: no label of {id}"
        );
        assert_eq!(
            page.matches(&format!("id=\"{id}\"")).count(),
            1,
            "{path}: {id} twice"
        );
    }
}
