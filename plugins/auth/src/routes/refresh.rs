//! Renewing the tokens of a session.

use std::sync::Arc;

use axum::http::HeaderName;
use linchpin::http::{PluginCall, Reply};
use linchpin::{Result, axum};

use super::shapes::{RefreshInput, Renewed};
use crate::core::Core;
use crate::error::{REFRESH_REQUIRED, refuse};
use crate::session::credential::{Once, once};

const HEADER: HeaderName = HeaderName::from_static("x-refresh-token");

/// Where the token stands: the first place that has one.
fn presented<'a>(core: &Core, call: &'a PluginCall, input: &'a RefreshInput) -> Option<(&'a str, bool)> {
    if let Some(token) = &input.refresh_token {
        return Some((token, false));
    }
    match (once(&call.headers, &HEADER), core.cookies.refresh(&call.headers)) {
        (Once::Text(token), _) => Some((token.trim(), false)),
        (Once::Absent, Once::Text(token)) => Some((token, true)),
        _ => None,
    }
}

pub(super) async fn refresh(core: Arc<Core>, call: PluginCall, input: RefreshInput) -> Result<Reply> {
    let client = core.client(&call);
    // A page of another origin brings no cookies, and takes none away.
    let clear = |reply| if core.csrf.may_sign_in(&call.headers).is_ok() { core.cookies.clear(reply) } else { reply };
    let Some((token, by_cookie)) = presented(&core, &call, &input) else {
        let refused = Reply::refused(refuse(REFRESH_REQUIRED));
        // Two of them are no proof that its own is worth nothing: a sibling domain can plant one, and is to gain nothing by it.
        return Ok(if core.cookies.refresh(&call.headers) == Once::Unusable { refused } else { clear(refused) });
    };
    if by_cookie {
        core.judge_refresh(&client, &call.headers, token).await?;
    }
    let (user, sid, tokens) = match core.renew(&client, token).await {
        Ok(renewed) => renewed,
        // What can never be right again is not kept.
        Err(error) if error.code().status() == 401 => return Ok(clear(Reply::refused(error))),
        Err(error) => return Err(error),
    };
    let in_body = core.config.auth.session.transport.bodies();
    let renewed = Renewed {
        token: if in_body { tokens.access.clone() } else { String::new() },
        refresh_token: tokens.refresh.clone().filter(|_| in_body),
        user_id: user.id,
        expires_at: tokens.expires_at,
    };
    core.carry(Reply::sparse(200, &renewed)?, &tokens, &sid, client.now)
}
