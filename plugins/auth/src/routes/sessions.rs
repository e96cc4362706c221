//! Routes for the caller's sessions.

use std::sync::Arc;

use linchpin::http::{PluginCall, Reply};
use linchpin::{Error, Result};

use super::account::caller;
use super::mailed::message_reply;
use super::shapes::{Revoked, SessionList, SessionView};
use crate::core::Core;
use crate::entities::Session;
use crate::flow::Reason;

pub(super) async fn list(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let sessions = core
        .active_sessions_of(&client, &known.user_id, Some(&known.handle))
        .await?;
    Reply::json(200, &session_list(sessions, &known.handle))
}

/// The sessions in a response, last active first.
pub(super) fn session_list(mut sessions: Vec<Session>, current: &str) -> SessionList {
    sessions.sort_by_key(|session| {
        (
            std::cmp::Reverse(session.last_active_at),
            std::cmp::Reverse(session.created_at),
        )
    });
    let sessions = sessions.into_iter().map(|session| SessionView {
        current: session.handle == current,
        session_id: session.handle,
        created_at: session.created_at,
        last_active_at: session.last_active_at,
        expires_at: session.expires_at,
        ip_address: session.ip,
        user_agent: session.user_agent,
        amr: session.amr,
        is_active: true,
    });
    SessionList {
        sessions: sessions.collect(),
    }
}

pub(super) async fn revoke(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let session = core
        .active_session(&client, &known.user_id, call.param(0), Some(&known.handle))
        .await?;
    let is_current = session.handle == known.handle;
    if !core
        .end(
            &client.cx(),
            &client,
            &session,
            if is_current {
                Reason::Logout
            } else {
                Reason::Revoked
            },
        )
        .await?
    {
        return Err(Error::not_found());
    }
    let reply = message_reply("The session was ended.")?;
    Ok(if is_current {
        core.cookies.clear(reply)
    } else {
        reply
    })
}

pub(super) async fn revoke_others(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let revoked = core
        .end_all(
            &client,
            &known.user_id,
            Some(&known.handle),
            Reason::Revoked,
        )
        .await?;
    Reply::json(200, &Revoked { ok: true, revoked })
}
