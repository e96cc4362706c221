//! Pages for passkeys: the script calls the browser, and a form sends the response.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Result, axum};
use maud::{Markup, html};
use serde_json::Value;

use super::account::security_page;
use super::enter::{sign_in_page, signed_in};
use super::factors::enrolled;
use super::texts;
use super::visit::{Answered, Visit};
use crate::entities::Credential;
use crate::error::{WEBAUTHN_FAILED, refuse};
use crate::routes::passkey_shapes::{LoginInput, RegisterInput, RenameInput};
use crate::routes::{passkey_login, passkeys};

/// The response of the browser.
pub(super) fn response(visit: &Visit) -> Result<Value> {
    serde_json::from_str(visit.form.get("response")).map_err(|_| refuse(WEBAUTHN_FAILED))
}

pub(super) async fn signing_in(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let input = LoginInput {
            passkey_token: visit.form.get("token").to_owned(),
            assertion_response: response(&visit)?,
        };
        passkey_login::login(visit.core.clone(), visit.call(&[])?, input).await
    };
    match done.await {
        Ok(reply) => signed_in(&visit, reply).await,
        Err(error) => sign_in_page(&visit, Some(&error)),
    }
}

pub(super) async fn add(visit: Visit) -> Result<Response<Body>> {
    if visit.enrolling()?.is_none() {
        return Ok(visit.to_sign_in());
    }
    let done = async {
        let name = visit
            .form
            .non_empty("name")
            .map(|name| name.chars().take(64).collect());
        let input = RegisterInput {
            registration_token: visit.form.get("token").to_owned(),
            attestation_response: response(&visit)?,
            name,
        };
        passkeys::register(visit.core.clone(), visit.call(&[])?, input).await
    };
    match done.await {
        Ok(reply) => {
            let answered = Answered::of(reply).await?;
            // If the user had no second factor before, the response contains recovery codes.
            if answered.body["recoveryCodes"]
                .as_array()
                .is_some_and(|codes| !codes.is_empty())
            {
                enrolled(&visit, answered)
            } else {
                Ok(visit.done("/security", "passkey"))
            }
        }
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn rename(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        let name: String = visit.form.get("name").chars().take(64).collect();
        passkeys::rename(
            visit.core.clone(),
            visit.call(&[visit.form.get("id")])?,
            RenameInput { name },
        )
        .await
        .map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(_)) => Ok(visit.done("/security", "renamed")),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

/// The passkeys of the user, and a form to add one.
///
/// # Errors
/// If the page cannot be rendered.
pub(super) fn section(visit: &Visit, all: &[Credential]) -> Result<Markup> {
    let mut items = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let used = one.last_used_at.map_or_else(
            || "Not used yet".to_owned(),
            |at| format!("Last used {}", texts::time(at)),
        );
        let field = format!("rename-{at}");
        let rename = visit.form(
            "/passkeys/rename",
            html! {
                input type="hidden" name="id" value=(one.id);
                div.row {
                    div.field {
                        label for=(field) { "Name" }
                        input id=(field) name="name" value=(one.name) maxlength="64" required
                            autocomplete="off";
                    }
                    button.plain.small { "Save" }
                }
            },
        )?;
        let id = html! { input type="hidden" name="id" value=(one.id); };
        let label = format!("Remove {}", one.name);
        let remove = visit.form(
            "/passkeys/remove",
            html! { (id) button.danger.small aria-label=(label) { "Remove" } },
        )?;
        items.push(html! {
            li {
                div.what {
                    strong { (one.name) }
                    span { "Added " (texts::time(one.created_at)) " · " (used) }
                }
                details {
                    summary aria-label={ "Change " (one.name) } { "Change" }
                    (rename)
                    (remove)
                }
            }
        });
    }
    let add = visit.passkey_form(
        "add",
        "/passkeys/add",
        html! {
            div.row {
                div.field {
                    label for="passkey-name" { "Name of the new passkey" }
                    input id="passkey-name" name="name" maxlength="64" placeholder="My phone"
                        autocomplete="off";
                }
                button.small { "Add a passkey" }
            }
        },
    )?;
    Ok(html! {
        section.card {
            h2 { "Passkeys" }
            p.lead {
                "Sign in with your fingerprint, face or device PIN. A passkey cannot be guessed or phished."
            }
            ul.list { @for item in &items { (item) } }
            (add)
            noscript { p.hint { "Passkeys need JavaScript." } }
        }
    })
}
