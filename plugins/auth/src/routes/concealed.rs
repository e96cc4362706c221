//! Sign-ups that tell nobody whether there is an account: its owner learns it by mail.

use std::sync::Arc;

use linchpin::http::{PluginCall, Reply};
use linchpin::{Code, Result};

use super::mailed::{by_ip, invalid, signing_in};
use super::shapes::{Said, TokenInput};
use crate::core::{Client, Core, Happened};
use crate::entities::{User, UserPatch};
use crate::error::overtaken;
use crate::flow::{NewAccount, Proved};
use crate::hooks::SignUp;
use crate::limit::{Bucket, Hit};
use crate::mail::MailKind;
use crate::onetime::Purpose;
use crate::secret::SecretText;

/// Who has proved by a mailed link that a sign-up was theirs.
const METHOD: &str = "verifyAndLogin";

/// Makes an account that is mailed a link, or tells the owner of the one there is. The answer is the same, and so is all that has
/// been done until here.
pub(super) async fn answer(core: Arc<Core>, client: Client, new: NewAccount, mut sign_up: SignUp) -> Result<Reply> {
    let identifier = new.identifier.normalised.clone();
    match core.create_account(&client, new).await {
        Ok(user) => {
            sign_up.user_id = Some(user.id);
            core.hooks.tell("post_register", core.hook_cx(&client), sign_up, |hooks, cx, input| hooks.post_register(cx, input));
        }
        Err(error) if error.code() == Code::Conflict => tell_owner(&core, &client, &identifier).await?,
        Err(error) => return Err(error),
    }
    let message = "If that email can be used, a message has been sent to it.".to_owned();
    Reply::json(202, &Said { ok: true, message })
}

/// Mails the owner of an account that somebody tried to sign up with its address, but not any number of times.
async fn tell_owner(core: &Core, client: &Client, identifier: &str) -> Result<()> {
    match core.limiter.take(&[Hit { bucket: Bucket::ResendIdentifier, of: &[identifier] }]).await {
        Err(error) if error.code() == Code::RateLimited => return Ok(()),
        taken => drop(taken?),
    }
    let cx = client.cx();
    let user = core.users.by_identifier(&cx, identifier.to_owned()).await?;
    let user = user.filter(|user| user.suspended_at.is_none() && !Core::is_gone(user, client));
    match user {
        Some(user) => core.parts.notice(&cx, client, &user, MailKind::ExistingAccount).await,
        None => Ok(()),
    }
}

/// Takes the token of such a sign-up: the address is proved, and whoever proved it is signed in.
pub(super) async fn verify_and_login(core: Arc<Core>, call: PluginCall, input: TokenInput) -> Result<Reply> {
    core.may_sign_in(&call, "verify-and-login").await?;
    let client = core.client(&call);
    by_ip(&core, &client, Bucket::VerifyAndLogin).await?;
    let token = SecretText::from(input.token);
    let (found, user) = signing_in(&core, &client, Purpose::VerifyAndLogin, METHOD, &token).await?;
    let proved: String = core.parts.tokens.payload(&found)?;
    if user.email_normalised.as_ref() != Some(&proved) {
        return Err(invalid());
    }
    let verified = client
        .cx()
        .transaction(async |cx| {
            if !core.parts.tokens.take(cx, &found).await? {
                return Err(invalid());
            }
            verify(&core, cx, &client, &user).await
        })
        .await;
    core.checks.forget(&user.id);
    core.complete_primary(&client, Proved { user: verified?, method: METHOD, amr: &["otp"], aal: 1, status: 200 }).await
}

async fn verify(core: &Core, cx: &linchpin::Cx, client: &Client, user: &User) -> Result<User> {
    if user.email_verified_at.is_some() {
        return Ok(user.clone());
    }
    let patch = UserPatch { email_verified_at: Some(Some(client.now)), ..UserPatch::default() };
    let verified = core.users.update(cx, user.id.as_str(), patch, Some(user.version)).await.map_err(overtaken)?;
    core.audit(cx, client, Happened::to("auth:email.verified", &user.id)).await?;
    Ok(verified)
}
