//! `/openapi.json` compared with every response that a case gets from the plugin's routes.

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
    one_store: what_sign_ins_answer, what_proves_who_calls;
}

/// Codes that hooks return in these tests, in addition to `hook_rejected`. The app defines them and
/// their statuses.
const OF_HOOKS: [&str; 3] = ["banned", "blocked", "unpaid"];

/// The document of an app.
pub struct Document {
    read: Json,
    /// By the text of their schema.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Document {
    /// Reads a document. The apps of many cases have the same one.
    pub fn of(text: &Bytes) -> Arc<Self> {
        static KNOWN: OnceLock<Mutex<HashMap<Bytes, Arc<Document>>>> = OnceLock::new();
        let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap();
        let read = || Self {
            read: serde_json::from_slice(text).unwrap(),
            validators: Mutex::default(),
        };
        Arc::clone(
            known
                .entry(text.clone())
                .or_insert_with(|| Arc::new(read())),
        )
    }

    /// Compares a response with the document, if the document has the route.
    #[track_caller]
    pub fn hold(&self, method: &str, path: &str, reply: &Reply) {
        let Some(operation) = self.operation(method, path) else {
            return;
        };
        if let Err(fault) = self.check(operation, reply) {
            panic!("{method} {path} is not as described: {fault}: {reply:?}");
        }
    }

    /// Whether there is such a route.
    pub fn knows(&self, method: &str, path: &str) -> bool {
        self.operation(method, path).is_some()
    }

    fn operation(&self, method: &str, path: &str) -> Option<&Json> {
        let path = path.split('?').next().unwrap_or_default();
        let is_it = |template: &str| {
            let same = |(named, sent): (&str, &str)| {
                named == sent || (named.starts_with('{') && !sent.is_empty())
            };
            template.split('/').count() == path.split('/').count()
                && template.split('/').zip(path.split('/')).all(same)
        };
        let all = self.read["paths"]
            .as_object()?
            .iter()
            .filter(|(template, _)| is_it(template));
        // Static segments have priority over parameters.
        let (_, item) = all.min_by_key(|(template, _)| template.matches('{').count())?;
        item.get(method.to_ascii_lowercase())
    }

    fn check(&self, operation: &Json, reply: &Reply) -> Result<(), String> {
        let answer: Json = serde_json::from_slice(&reply.body).unwrap_or_default();
        let code = answer["code"].as_str().unwrap_or_default();
        if OF_HOOKS.contains(&code) || (code == "hook_rejected" && reply.status != 400) {
            return Ok(());
        }
        let mut described = &operation["responses"][reply.status.to_string()];
        if let Some(target) = described["$ref"].as_str() {
            described = self
                .read
                .pointer(&target[1..])
                .ok_or_else(|| format!("{target} leads nowhere"))?;
        }
        if described.is_null() {
            return Err("it has no such status".to_owned());
        }
        let Some(content) = described["content"]["application/json"].as_object() else {
            return if reply.body.is_empty() {
                Ok(())
            } else {
                Err("it has no body".to_owned())
            };
        };
        if reply.header("content-type") != "application/json" {
            return Err("it is JSON".to_owned());
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
            let whole = json!({ "components": { "schemas": self.read["components"]["schemas"] }, "allOf": [schema] });
            Arc::new(
                jsonschema::options()
                    .should_validate_formats(true)
                    .build(&whole)
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
async fn what_sign_ins_answer(store: Store) {
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
async fn what_proves_who_calls(store: Store) {
    let ways = async |change: fn(Auth) -> Auth| {
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
    let meant = json!({ "sessionCookie": [], "csrfToken": [] });
    let both = ways(Auth::refresh_tokens).await;
    let of = |document: &Json, method: &str, path: &str| {
        document["paths"][path][method]["security"].clone()
    };
    assert_eq!(of(&both, "get", "/auth/me"), json!([token, header, cookie]));
    assert_eq!(
        of(&both, "patch", "/auth/me"),
        json!([token, header, meant])
    );
    assert_eq!(
        of(&both, "get", "/auth/sessions"),
        json!([token, header, cookie])
    );
    assert_eq!(
        of(&both, "post", "/auth/admin/users/{id}/suspend"),
        json!([token, header, meant])
    );
    assert_eq!(of(&both, "post", "/auth/login"), json!([]));
    assert_eq!(
        of(&both, "delete", "/notes/{id}"),
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
    let reads = |path: &str| both["paths"][path]["post"]["parameters"][0]["name"].clone();
    assert_eq!(
        (reads("/auth/login"), reads("/auth/refresh")),
        (json!("x-device-token"), json!("x-refresh-token"))
    );
    // A header that is not read is not documented.
    let bearer = ways(|auth| auth.transport(Transport::Bearer)).await;
    assert_eq!(of(&bearer, "patch", "/auth/me"), json!([token, header]));
    let trusting = ways(|auth| auth.configure(|config| config.security.csrf = false)).await;
    assert_eq!(
        of(&trusting, "patch", "/auth/me"),
        json!([token, header, cookie])
    );
}
