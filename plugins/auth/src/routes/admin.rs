//! Admin routes, for the role of `auth.admin.role` after a step-up; and the user's own activity.

use std::sync::Arc;

use linchpin::entity::{FieldDesc, Kind};
use linchpin::http::{AnswerDesc, GuardDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Error, Problem, Result};

use super::account::{caller, view};
use super::mailed::message_reply;
use super::sessions::session_list;
use super::shapes::{
    ActivityPage, ActivityView, AdminUser, AdminUserPage, AuditPage, AuditView, Revoked, Roles,
    SessionList, SuspendInput,
};
use super::{CoreCell, DONE, route, with_core};
use crate::config::AuthConfig;
use crate::core::Core;
use crate::entities::User;
use crate::error::{
    CSRF_FAILED, DELETION_SCHEDULED, MFA_NOT_ENABLED, MFA_SETUP_REQUIRED, STEP_UP_REQUIRED,
};
use crate::flow::{Reason, own_account_error};
use crate::guards::ADMIN;
use crate::service::{AccountQuery, AuditQuery};

const LIMIT: FieldDesc = FieldDesc::new("limit", "limit", "limit", Kind::Integer, true);
const CURSOR: FieldDesc = FieldDesc::new("cursor", "cursor", "cursor", Kind::String, true);
const PROVED: &[GuardDesc] = &[GuardDesc::new("require_step_up")];
const LIST_ERRORS: &[Code] = &[
    Code::InvalidCursor,
    DELETION_SCHEDULED,
    MFA_SETUP_REQUIRED,
    STEP_UP_REQUIRED,
];
const RESET_ERRORS: &[Code] = &[
    Code::NotFound,
    Code::Conflict,
    MFA_NOT_ENABLED,
    DELETION_SCHEDULED,
    MFA_SETUP_REQUIRED,
    STEP_UP_REQUIRED,
    CSRF_FAILED,
];
const CHANGE_ERRORS: &[Code] = &[
    Code::NotFound,
    Code::Conflict,
    DELETION_SCHEDULED,
    MFA_SETUP_REQUIRED,
    STEP_UP_REQUIRED,
    CSRF_FAILED,
];

static ACTIVITY: Route<Nothing> = route(Route::get("activity", "activity"))
    .doc("Lists the events of the caller's account, newest first.")
    .auth("userAuth")
    .query(&[LIMIT, CURSOR])
    .answers(&[AnswerDesc::of::<ActivityPage>(200, "A page.")])
    .errors(&[Code::InvalidCursor, DELETION_SCHEDULED, MFA_SETUP_REQUIRED]);
static USERS: Route<Nothing> = route(Route::get("admin_users", "admin/users"))
    .doc("Lists accounts, newest first.")
    .auth(ADMIN)
    .guards(PROVED)
    .query(&[
        LIMIT,
        CURSOR,
        FieldDesc::new("email", "email", "email", Kind::String, true),
        FieldDesc::new("suspended", "suspended", "suspended", Kind::Boolean, true),
        FieldDesc::new("role", "role", "role", Kind::String, true),
    ])
    .answers(&[AnswerDesc::of::<AdminUserPage>(200, "A page.")])
    .errors(LIST_ERRORS);
static SUSPEND: Route<SuspendInput> =
    route(Route::post("admin_suspend", "admin/users/{id}/suspend"))
        .doc("Suspends an account: its sessions end, and it cannot sign in.")
        .auth(ADMIN)
        .guards(PROVED)
        .answers(DONE)
        .errors(CHANGE_ERRORS);
static UNSUSPEND: Route<Nothing> =
    route(Route::post("admin_unsuspend", "admin/users/{id}/unsuspend"))
        .doc("Lifts the suspension of an account.")
        .auth(ADMIN)
        .guards(PROVED)
        .answers(DONE)
        .errors(CHANGE_ERRORS);
static SET_ROLES: Route<Roles> = route(Route::put("admin_set_roles", "admin/users/{id}/roles"))
    .doc("Replaces the roles of an account.")
    .auth(ADMIN)
    .guards(PROVED)
    .answers(&[AnswerDesc::of::<Roles>(200, "The new roles.")])
    .errors(CHANGE_ERRORS);
static SESSIONS: Route<Nothing> = route(Route::get("admin_sessions", "admin/users/{id}/sessions"))
    .doc("Lists the sessions of an account, last active first.")
    .auth(ADMIN)
    .guards(PROVED)
    .answers(&[AnswerDesc::of::<SessionList>(200, "The sessions.")])
    .errors(CHANGE_ERRORS);
static REVOKE_ALL: Route<Nothing> = route(Route::delete(
    "admin_revoke_sessions",
    "admin/users/{id}/sessions",
))
.doc("Ends all sessions of an account.")
.auth(ADMIN)
.guards(PROVED)
.answers(&[AnswerDesc::of::<Revoked>(
    200,
    "The number of ended sessions.",
)])
.errors(CHANGE_ERRORS);
static REVOKE: Route<Nothing> = route(Route::delete(
    "admin_revoke_session",
    "admin/users/{id}/sessions/{sessionId}",
))
.doc("Ends a session of an account.")
.auth(ADMIN)
.guards(PROVED)
.answers(&[AnswerDesc::of::<Revoked>(
    200,
    "The number of ended sessions.",
)])
.errors(CHANGE_ERRORS);
static RESET_MFA: Route<Nothing> =
    route(Route::post("admin_reset_mfa", "admin/users/{id}/reset-mfa"))
        .doc("Removes all second factors of an account, for a user who lost them.")
        .auth(ADMIN)
        .guards(PROVED)
        .answers(DONE)
        .errors(RESET_ERRORS);
static AUDIT: Route<Nothing> = route(Route::get("admin_audit", "admin/audit"))
    .doc("Lists the entries of the audit log, newest first.\n\n`from` is inclusive, `to` is exclusive.")
    .auth(ADMIN)
    .guards(PROVED)
    .query(&[
        LIMIT,
        CURSOR,
        FieldDesc::new("user_id", "userId", "user_id", Kind::String, true),
        FieldDesc::new("event", "event", "event", Kind::String, true),
        FieldDesc::new("from", "from", "from", Kind::Date, true),
        FieldDesc::new("to", "to", "to", Kind::Date, true),
    ])
    .answers(&[AnswerDesc::of::<AuditPage>(200, "A page.")])
    .errors(LIST_ERRORS);

/// The routes that the settings enable.
pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let mount = config.auth.mount.as_str();
    let mut out = vec![ACTIVITY.bind(
        mount,
        with_core(core_cell, |core, call, _| activity(core, call)),
    )];
    if config.auth.admin_role.is_some() {
        out.push(USERS.bind(
            mount,
            with_core(core_cell, |core, call, _| users(core, call)),
        ));
        out.push(SUSPEND.bind(mount, with_core(core_cell, suspend)));
        out.push(UNSUSPEND.bind(
            mount,
            with_core(core_cell, |core, call, _| unsuspend(core, call)),
        ));
        out.push(SET_ROLES.bind(mount, with_core(core_cell, set_roles)));
        out.push(SESSIONS.bind(
            mount,
            with_core(core_cell, |core, call, _| sessions(core, call)),
        ));
        out.push(REVOKE_ALL.bind(
            mount,
            with_core(core_cell, |core, call, _| revoke_all(core, call)),
        ));
        out.push(REVOKE.bind(
            mount,
            with_core(core_cell, |core, call, _| revoke(core, call)),
        ));
        if config.auth.mfa.enabled {
            out.push(RESET_MFA.bind(
                mount,
                with_core(core_cell, |core, call, _| reset_mfa(core, call)),
            ));
        }
        out.push(AUDIT.bind(
            mount,
            with_core(core_cell, |core, call, _| audits(core, call)),
        ));
    }
    out
}

/// The page of a request, from `limit` and `cursor` in its query.
fn paging(call: &PluginCall) -> Result<(Option<u32>, Option<String>)> {
    let limit = call.query::<i64>(0)?;
    if limit.is_some_and(|limit| limit < 1) {
        return Err(Error::invalid(Problem::new(
            "query:limit",
            "range",
            "must be at least 1",
        )));
    }
    Ok((
        limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
        call.query(1)?,
    ))
}

async fn activity(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let known = caller(&call)?;
    let (limit, cursor) = paging(&call)?;
    let query = AuditQuery {
        user_id: Some(known.user_id),
        limit,
        cursor,
        ..AuditQuery::default()
    };
    let page = core.find_audits(&core.client(&call), query).await?;
    let items = page.items.into_iter().map(|row| ActivityView {
        id: row.id,
        event: row.event,
        at: row.at,
        ip_address: row.ip,
        user_agent: row.user_agent,
        session_id: row.session_id,
        outcome: row.outcome,
    });
    Reply::json(
        200,
        &ActivityPage {
            items: items.collect(),
            next_cursor: page.next_cursor,
            has_more: page.has_more,
        },
    )
}

async fn users(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (limit, cursor) = paging(&call)?;
    let query = AccountQuery {
        email: call.query(2)?,
        suspended: call.query(3)?,
        role: call.query(4)?,
        limit,
        cursor,
    };
    let client = core.client(&call);
    let page = core.find_accounts(&client, query, "query:email").await?;
    let mut providers = core.providers_of_each(&client.cx(), &page.items).await?;
    let admin_user = |mut user: User| {
        let (at, reason) = (user.suspended_at, user.suspended_reason.take());
        let providers = providers.remove(&user.id).unwrap_or_default();
        AdminUser::new(view(&core, user, providers, None), at, reason)
    };
    let items = page.items.into_iter().map(admin_user).collect();
    Reply::json(
        200,
        &AdminUserPage {
            items,
            next_cursor: page.next_cursor,
            has_more: page.has_more,
        },
    )
}

async fn suspend(core: Arc<Core>, call: PluginCall, input: SuspendInput) -> Result<Reply> {
    let by = caller(&call)?;
    if by.user_id == call.param(0) {
        return Err(own_account_error());
    }
    core.suspend(
        &core.client(&call),
        Some(&by.user_id),
        call.param(0),
        input.reason,
    )
    .await?;
    message_reply("The account is suspended.")
}

async fn unsuspend(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let by = caller(&call)?;
    core.unsuspend(&core.client(&call), Some(&by.user_id), call.param(0))
        .await?;
    message_reply("The account is no longer suspended.")
}

async fn set_roles(core: Arc<Core>, call: PluginCall, input: Roles) -> Result<Reply> {
    let by = caller(&call)?;
    let user = core
        .set_roles(
            &core.client(&call),
            Some(&by.user_id),
            call.param(0),
            input.roles,
        )
        .await?;
    Reply::json(200, &Roles { roles: user.roles })
}

async fn sessions(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (known, client) = (caller(&call)?, core.client(&call));
    core.users
        .get(&client.cx(), call.param(0))
        .await?
        .ok_or_else(Error::not_found)?;
    let sessions = core
        .active_sessions_of(&client, call.param(0), Some(&known.handle))
        .await?;
    Reply::json(200, &session_list(sessions, &known.handle))
}

async fn revoke_all(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let client = core.client(&call);
    core.users
        .get(&client.cx(), call.param(0))
        .await?
        .ok_or_else(Error::not_found)?;
    let revoked = core
        .end_all(&client, call.param(0), None, Reason::Revoked)
        .await?;
    Reply::json(200, &Revoked { ok: true, revoked })
}

async fn revoke(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    core.revoke_session(
        &core.client(&call),
        call.param(0),
        call.param(1),
        Some(&caller(&call)?.handle),
    )
    .await?;
    Reply::json(
        200,
        &Revoked {
            ok: true,
            revoked: 1,
        },
    )
}

async fn reset_mfa(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let by = caller(&call)?;
    core.reset_mfa(&core.client(&call), Some(&by.user_id), call.param(0))
        .await?;
    message_reply("The second factors were removed.")
}

async fn audits(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (limit, cursor) = paging(&call)?;
    let query = AuditQuery {
        user_id: call.query(2)?,
        event: call.query(3)?,
        from: call.query(4)?,
        to: call.query(5)?,
        limit,
        cursor,
    };
    let page = core.find_audits(&core.client(&call), query).await?;
    let items = page.items.into_iter().map(|row| AuditView {
        id: row.id,
        event: row.event,
        at: row.at,
        user_id: row.user_id,
        session_id: row.session_id,
        tenant_id: row.tenant_id,
        ip_address: row.ip,
        user_agent: row.user_agent,
        request_id: row.request_id,
        outcome: row.outcome,
        details: row.details,
    });
    Reply::json(
        200,
        &AuditPage {
            items: items.collect(),
            next_cursor: page.next_cursor,
            has_more: page.has_more,
        },
    )
}
