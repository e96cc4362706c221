//! The route to refresh the tokens of a session.

use std::sync::Arc;

use axum::http::HeaderName;
use linchpin::http::{PluginCall, Reply};
use linchpin::{Cx, Result, axum};

use super::shapes::{RefreshInput, Renewed};
use crate::core::Core;
use crate::error::{REFRESH_REQUIRED, refuse};
use crate::flow::Pace;
use crate::session::credential::{SingleValue, single_value};

const HEADER: HeaderName = HeaderName::from_static("x-refresh-token");

/// The place of a refresh token in a request.
enum Place {
    /// In the body or a header, from a client that has it.
    Client,
    /// In a cookie; `given` says whether the server gave the cookie to this browser.
    Cookie { given: bool },
}

/// The refresh token from the body, the header or the cookies, in this order.
async fn find_token<'a>(
    core: &Core,
    cx: &Cx,
    call: &'a PluginCall,
    input: &'a RefreshInput,
) -> Result<Option<(&'a str, Place)>> {
    if let Some(token) = &input.refresh_token {
        return Ok(Some((token, Place::Client)));
    }
    Ok(match single_value(&call.headers, &HEADER) {
        SingleValue::Text(token) => Some((token.trim(), Place::Client)),
        SingleValue::Unusable => None,
        SingleValue::Absent => match (
            core.refresh_given(cx, &call.headers).await?,
            core.cookies.refresh(&call.headers),
        ) {
            (Some((token, _)), _) => Some((token, Place::Cookie { given: true })),
            (None, SingleValue::Text(token)) => Some((token, Place::Cookie { given: false })),
            (None, _) => None,
        },
    })
}

pub(super) async fn refresh(
    core: Arc<Core>,
    call: PluginCall,
    input: RefreshInput,
) -> Result<Reply> {
    let client = core.client(&call);
    // A cross-origin page must not make the server set or clear cookies.
    let may_set_cookies = core.csrf.may_sign_in(&call.headers).is_ok();
    let clear = |reply| {
        if may_set_cookies {
            core.cookies.clear(reply)
        } else {
            reply
        }
    };
    let Some((token, place)) = find_token(&core, &client.cx(), &call, &input).await? else {
        let refused = Reply::refused(refuse(REFRESH_REQUIRED));
        // Two cookies do not show that the browser's own token is invalid, because a sibling domain
        // can set a second cookie. So the user is not signed out.
        return Ok(
            if core.cookies.refresh(&call.headers) == SingleValue::Unusable {
                refused
            } else {
                clear(refused)
            },
        );
    };
    if let Place::Cookie { given } = place {
        core.check_refresh(&client, &call.headers, token, given)
            .await?;
    }
    let (user, sid, tokens) = match core.renew(&client, token, Pace::Always).await {
        Ok(renewed) => renewed,
        // A token that can never be valid again is cleared.
        Err(error) if error.code().status() == 401 => return Ok(clear(Reply::refused(error))),
        Err(error) => return Err(error),
    };
    let in_body = core.config.auth.session.transport.bodies();
    let renewed = Renewed {
        token: if in_body {
            tokens.access.clone()
        } else {
            String::new()
        },
        refresh_token: tokens.refresh.clone().filter(|_| in_body),
        user_id: user.id,
        expires_at: tokens.expires_at,
    };
    let reply = Reply::sparse(200, &renewed)?;
    if may_set_cookies {
        core.attach_tokens(reply, &tokens, &sid, client.now)
    } else {
        Ok(reply)
    }
}
