//! The work of `GET /auth/me` without authentication, as a baseline.
//!
//! The route is described and mounted like the routes of `linchpin-auth`. It reads a record with
//! the columns of an account through its adapter, and returns the members of `/auth/me`. The path
//! contains the key of the account.

use std::sync::{Arc, OnceLock};

use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::prelude::*;
use linchpin::{BoxFuture, Plugin, RoutesCx};
use serde_json::Value as Json;

/// An account, with the columns that `linchpin-auth` stores.
#[entity(
    namespace = "bench",
    unique(identifier),
    unique(email_normalised),
    index(deletion_due_at),
    index(created_at),
    sort = desc(created_at),
    version(required_on_write = false),
    routes(disabled)
)]
#[derive(Clone, Debug)]
#[allow(missing_docs)] // documented in `linchpin-auth`
pub struct Account {
    #[field(primary)]
    pub id: String,
    pub identifier: String,
    pub identifier_display: String,
    pub email: Option<String>,
    pub email_normalised: Option<String>,
    pub email_verified_at: Option<Timestamp>,
    pub proved_at: Option<Timestamp>,
    #[field(private)]
    pub password_hash: Option<String>,
    #[field(default = 0)]
    pub password_version: i64,
    #[field(default = 0)]
    pub session_epoch: i64,
    pub roles: Vec<String>,
    pub suspended_at: Option<Timestamp>,
    pub suspended_reason: Option<String>,
    pub deletion_due_at: Option<Timestamp>,
    pub display_name: Option<String>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub user_metadata: Json,
    #[field(private)]
    pub app_metadata: Option<Json>,
    #[field(immutable)]
    pub user_handle: String,
    #[field(default = 0)]
    pub mfa_version: i64,
    pub mfa_methods: Vec<String>,
    pub created_at: Timestamp,
}

/// The fields of an account in the response.
#[derive(Embedded, Debug)]
#[allow(missing_docs)] // documented in `linchpin-auth`
pub struct View {
    pub id: String,
    pub user_id: String,
    pub email: Option<String>,
    pub username: Option<String>,
    pub phone: Option<String>,
    pub email_verified: bool,
    pub roles: Vec<String>,
    pub display_name: Option<String>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub user_metadata: Json,
    pub has_password: bool,
    pub mfa_enabled: bool,
    pub mfa_methods: Vec<String>,
    pub providers: Vec<String>,
    pub suspended: bool,
    pub deletion_scheduled_for: Option<Timestamp>,
    pub session_id: String,
    pub tenant_id: Option<String>,
    pub created_at: Timestamp,
}

impl From<Account> for View {
    fn from(account: Account) -> Self {
        Self {
            user_id: account.id.clone(),
            id: account.id,
            email: account.email,
            username: None,
            phone: None,
            email_verified: account.email_verified_at.is_some(),
            roles: account.roles,
            display_name: account.display_name,
            first_name: account.first_name,
            last_name: account.last_name,
            user_metadata: account.user_metadata,
            has_password: account.password_hash.is_some(),
            mfa_enabled: !account.mfa_methods.is_empty(),
            mfa_methods: account.mfa_methods,
            providers: Vec::new(),
            suspended: account.suspended_at.is_some(),
            deletion_scheduled_for: account.deletion_due_at,
            // Has the length of a session handle.
            session_id: account.user_handle,
            tenant_id: None,
            created_at: account.created_at,
        }
    }
}

/// The account of a user that the bench registers. Its password hash has the length of a real hash,
/// but no password matches it.
pub fn account(id: &str, user: usize) -> AccountCreate {
    let email = format!("known{user}@x.test");
    AccountCreate {
        id: id.to_owned(),
        identifier: email.clone(),
        identifier_display: email.clone(),
        email: Some(email.clone()),
        email_normalised: Some(email),
        email_verified_at: None,
        proved_at: None,
        password_hash: Some(format!("$argon2id$v=19$m=19456,t=2,p=1${}", "x".repeat(66))),
        password_version: None,
        session_epoch: None,
        roles: None,
        suspended_at: None,
        suspended_reason: None,
        deletion_due_at: None,
        display_name: None,
        first_name: None,
        last_name: None,
        user_metadata: serde_json::json!({}),
        app_metadata: None,
        user_handle: "a".repeat(22),
        mfa_version: None,
        mfa_methods: None,
        created_at: Timestamp::system_now(),
    }
}

static ENTITIES: Package = package!(name = "account", entities = [entity(Account)]);

static SHOW: Route<Nothing> = Route::get("show", "{id}")
    .of("accounts")
    .doc("An account, readable by anyone.")
    .public()
    .headers(&[
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
    ])
    .answers(&[AnswerDesc::of::<View>(200, "The account.")]);

/// The plugin that shows accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    accounts: Arc<OnceLock<AccountAdapter>>,
}

impl Plugin for Accounts {
    fn name(&self) -> &'static str {
        "accounts"
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&ENTITIES];
        &PACKAGES
    }

    fn routes(&self) -> Vec<PluginRoute> {
        let accounts = Arc::clone(&self.accounts);
        vec![SHOW.bind("/accounts", move |call, _| {
            show(Arc::clone(&accounts), call)
        })]
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let adapter = cx.adapters().get::<Account>()?;
            self.accounts
                .set(adapter)
                .map_err(|_| Error::internal("the plugin was set up twice"))
        })
    }
}

async fn show(accounts: Arc<OnceLock<AccountAdapter>>, call: PluginCall) -> Result<Reply> {
    let accounts = accounts
        .get()
        .ok_or_else(|| Error::internal("not set up"))?;
    let cx = Cx::system("bench").at(call.cx.now());
    let account = accounts
        .get(&cx, call.param(0))
        .await?
        .ok_or_else(Error::not_found)?;
    Reply::json(200, &View::from(account))
}
