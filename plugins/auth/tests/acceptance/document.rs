//! Compares every response that a case gets from the plugin's routes with `/openapi.json`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use linchpin::axum::body::Bytes;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::fuzz::everything;
use crate::post::Post;
use crate::server::{Reply, Store};
use linchpin_auth::{Auth, Transport};

cases! {
    one_store: the_document_lists_responses_of_sign_ins, the_document_lists_ways_to_authenticate;
}

/// Codes that hooks return in these tests, in addition to `hook_rejected`. The app defines them and
/// their statuses.
const HOOK_CODES: [&str; 3] = ["banned", "blocked", "unpaid"];

/// The document of an app.
pub struct Document {
    json: Json,
    /// The compiled validators, by the text of their schema.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Document {
    /// Parses a document. It is cached, because the apps of many cases have the same one.
    pub fn of(text: &Bytes) -> Arc<Self> {
        static CACHE: OnceLock<Mutex<HashMap<Bytes, Arc<Document>>>> = OnceLock::new();
        let mut cache = CACHE.get_or_init(Mutex::default).lock().unwrap();
        let parse = || Self {
            json: serde_json::from_slice(text).unwrap(),
            validators: Mutex::default(),
        };
        Arc::clone(
            cache
                .entry(text.clone())
                .or_insert_with(|| Arc::new(parse())),
        )
    }

    /// Compares a response with the document, if the document has the route.
    #[track_caller]
    pub fn compare(&self, method: &str, path: &str, reply: &Reply) {
        let Some(operation) = self.operation(method, path) else {
            return;
        };
        if let Err(fault) = self.check(operation, reply) {
            panic!("{method} {path} does not match the document: {fault}: {reply:?}");
        }
    }

    /// Whether there is such a route.
    pub fn has_route(&self, method: &str, path: &str) -> bool {
        self.operation(method, path).is_some()
    }

    fn operation(&self, method: &str, path: &str) -> Option<&Json> {
        let path = path.split('?').next().unwrap_or_default();
        let matches_path = |template: &str| {
            let same = |(named, sent): (&str, &str)| {
                named == sent || (named.starts_with('{') && !sent.is_empty())
            };
            template.split('/').count() == path.split('/').count()
                && template.split('/').zip(path.split('/')).all(same)
        };
        let all = self.json["paths"]
            .as_object()?
            .iter()
            .filter(|(template, _)| matches_path(template));
        // Static segments have priority over parameters.
        let (_, item) = all.min_by_key(|(template, _)| template.matches('{').count())?;
        item.get(method.to_ascii_lowercase())
    }

    fn check(&self, operation: &Json, reply: &Reply) -> Result<(), String> {
        let answer: Json = serde_json::from_slice(&reply.body).unwrap_or_default();
        let code = answer["code"].as_str().unwrap_or_default();
        if HOOK_CODES.contains(&code) || (code == "hook_rejected" && reply.status != 400) {
            return Ok(());
        }
        let mut described = &operation["responses"][reply.status.to_string()];
        if let Some(target) = described["$ref"].as_str() {
            described = self
                .json
                .pointer(&target[1..])
                .ok_or_else(|| format!("{target} does not exist"))?;
        }
        if described.is_null() {
            return Err("the status is not documented".to_owned());
        }
        let Some(content) = described["content"]["application/json"].as_object() else {
            return if reply.body.is_empty() {
                Ok(())
            } else {
                Err("the document has no body".to_owned())
            };
        };
        if reply.header("content-type") != "application/json" {
            return Err("the response is not JSON".to_owned());
        }
        let faults: Vec<String> = self
            .validator(&content["schema"])
            .iter_errors(&answer)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.join("; "))
        }
    }

    fn validator(&self, schema: &Json) -> Arc<Validator> {
        let build = || {
            let with_components = json!({ "components": { "schemas": self.json["components"]["schemas"] }, "allOf": [schema] });
            Arc::new(
                jsonschema::options()
                    .should_validate_formats(true)
                    .build(&with_components)
                    .unwrap(),
            )
        };
        Arc::clone(
            self.validators
                .lock()
                .unwrap()
                .entry(schema.to_string())
                .or_insert_with(build),
        )
    }
}

/// The document lists `mfaRequired` and the errors of every route that can return them.
async fn the_document_lists_responses_of_sign_ins(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| everything(auth, &post)).await;
    let document = Document::of(&app.raw("GET", "/openapi.json", &[], "").await.body);
    let operation = |method: &str, path: &str| {
        document
            .operation(method, path)
            .unwrap_or_else(|| panic!("no {method} {path}"))
    };
    for (path, challenges) in [
        ("/auth/login", true),
        ("/auth/magic-link/verify", true),
        ("/auth/passkey/login", true),
        ("/auth/oauth/exchange", true),
        ("/auth/mfa/verify", false),
        ("/auth/refresh", false),
    ] {
        let answers = operation("POST", path)["responses"]["200"].to_string();
        assert!(
            answers.contains("expiresAt") && answers.contains("mfaToken") == challenges,
            "{path}: {answers}"
        );
    }
    let refusal = |status: u16, code: &str| {
        let body = json!({ "error": "No", "code": code, "requestId": "12345678" }).to_string();
        let headers = [("content-type", "application/json")]
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Reply {
            status,
            headers: headers.into_iter().collect(),
            body: body.into(),
        }
    };
    for (method, path, status, code) in [
        ("POST", "/auth/refresh", 403, "email_not_verified"),
        ("POST", "/auth/mfa/verify-setup", 403, "email_not_verified"),
        (
            "POST",
            "/auth/mfa/email-otp/verify-setup",
            403,
            "email_not_verified",
        ),
        ("DELETE", "/auth/mfa", 409, "last_credential"),
        ("POST", "/auth/login", 400, "hook_rejected"),
        ("POST", "/auth/register", 401, "invalid_credentials"),
        ("POST", "/auth/resend-verification", 403, "csrf_failed"),
        ("DELETE", "/auth/sessions", 403, "mfa_setup_required"),
        ("DELETE", "/auth/sessions/some", 403, "mfa_setup_required"),
        (
            "POST",
            "/auth/sessions/revoke-others",
            403,
            "mfa_setup_required",
        ),
    ] {
        assert_eq!(
            document.check(operation(method, path), &refusal(status, code)),
            Ok(()),
            "{method} {path}"
        );
        // An undocumented response is an error.
        assert!(
            document
                .check(operation(method, path), &refusal(status, "surprise"))
                .is_err(),
            "{method} {path}"
        );
        assert!(
            document
                .check(operation(method, path), &refusal(418, "surprise"))
                .is_err(),
            "{method} {path}"
        );
    }
}

/// The document contains every way to authenticate, and no internal names, so that clients can be
/// generated from it.
async fn the_document_lists_ways_to_authenticate(store: Store) {
    let document_with = async |change: fn(Auth) -> Auth| {
        let app = store
            .app_with(|auth| {
                change(auth).configure(|config| config.auth.admin_role = Some("admin".into()))
            })
            .await;
        let document = app.raw("GET", "/openapi.json", &[], "").await.json();
        app.stop().await;
        document
    };
    let (token, header, cookie) = (
        json!({ "userAuth": [] }),
        json!({ "userToken": [] }),
        json!({ "sessionCookie": [] }),
    );
    let cookie_and_csrf = json!({ "sessionCookie": [], "csrfToken": [] });
    let both = document_with(Auth::refresh_tokens).await;
    let security_of = |document: &Json, method: &str, path: &str| {
        document["paths"][path][method]["security"].clone()
    };
    assert_eq!(
        security_of(&both, "get", "/auth/me"),
        json!([token, header, cookie])
    );
    assert_eq!(
        security_of(&both, "patch", "/auth/me"),
        json!([token, header, cookie_and_csrf])
    );
    assert_eq!(
        security_of(&both, "get", "/auth/sessions"),
        json!([token, header, cookie])
    );
    assert_eq!(
        security_of(&both, "post", "/auth/admin/users/{id}/suspend"),
        json!([token, header, cookie_and_csrf])
    );
    assert_eq!(security_of(&both, "post", "/auth/login"), json!([]));
    assert_eq!(
        security_of(&both, "delete", "/notes/{id}"),
        json!([{ "bearer": [] }])
    );
    let schemes = both["components"]["securitySchemes"].as_object().unwrap();
    let names: Vec<&str> = schemes.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "bearer",
            "csrfToken",
            "sessionCookie",
            "userAuth",
            "userToken"
        ]
    );
    assert_eq!(
        (
            &schemes["sessionCookie"]["in"],
            &schemes["sessionCookie"]["name"]
        ),
        (&json!("cookie"), &json!("__Host-token"))
    );
    assert_eq!(
        (&schemes["csrfToken"]["in"], &schemes["csrfToken"]["name"]),
        (&json!("header"), &json!("x-csrf-token"))
    );
    assert_eq!(
        (&schemes["userToken"]["in"], &schemes["userToken"]["name"]),
        (&json!("header"), &json!("x-user-token"))
    );
    let first_header = |path: &str| both["paths"][path]["post"]["parameters"][0]["name"].clone();
    assert_eq!(
        (first_header("/auth/login"), first_header("/auth/refresh")),
        (json!("x-device-token"), json!("x-refresh-token"))
    );
    // A header that is not read is not documented.
    let bearer = document_with(|auth| auth.transport(Transport::Bearer)).await;
    assert_eq!(
        security_of(&bearer, "patch", "/auth/me"),
        json!([token, header])
    );
    let trusting =
        document_with(|auth| auth.configure(|config| config.security.csrf = false)).await;
    assert_eq!(
        security_of(&trusting, "patch", "/auth/me"),
        json!([token, header, cookie])
    );
}
