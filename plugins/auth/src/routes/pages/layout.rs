//! The common parts of all pages: the frame, form fields, error messages, and security headers.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use linchpin::{Error, Result, axum};
use maud::{DOCTYPE, Markup, html};

use super::texts;
use super::visit::{Visit, page};
use crate::core::Core;
use crate::error::INVALID_CREDENTIALS;

const REFRESH: HeaderName = HeaderName::from_static("refresh");

/// Allows only files of the plugin itself, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Sets the security headers of a page. The address of a page is not sent to other sites in
/// `Referer`. Forms send `Origin`, which the server checks.
pub(super) fn set_security_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The response with a page.
fn page_response(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    set_security_headers(response.headers_mut());
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    response
}

/// The width of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

fn frame(core: &Core, title: &str, width: Width, nav: &Markup, content: &Markup) -> String {
    let asset = |name: &str| page(core, &format!("/assets/{name}"));
    let app = core.config.auth.app_name.as_str();
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – " (app) }
                link rel="stylesheet" href=(asset("pages.css"));
                link rel="stylesheet" href=(asset("theme.css"));
                script src=(asset("pages.js")) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header {
                    span.brand { (app) }
                    (nav)
                }
                main id="main" class=[(width == Width::Wide).then_some("wide")] {
                    div.notice id="said" role="status" aria-live="polite" {}
                    (content)
                }
            }
        }
    };
    without_hidden_characters(document)
}

/// Removes control characters and those that change the direction of the text after them, so that
/// a name chosen by a user cannot disguise the text next to it.
fn without_hidden_characters(document: Markup) -> String {
    let mut text = document.into_string();
    text.retain(|c| {
        let changes_direction = matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        );
        c == '\n' || !(c.is_control() || changes_direction)
    });
    text
}

impl Visit {
    /// Renders a page, with the message of an error if there is one.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn show(
        &self,
        title: &str,
        width: Width,
        content: Markup,
        error: Option<&Error>,
    ) -> Result<Response<Body>> {
        let status = error
            .and_then(|error| StatusCode::from_u16(error.code().status()).ok())
            .unwrap_or(StatusCode::OK);
        let nav = match &self.known {
            Some(_) => self.nav()?,
            None => Markup::default(),
        };
        let mut response = page_response(status, frame(&self.core, title, width, &nav, &content));
        set_retry_after(&mut response, error);
        Ok(self.bind(response))
    }

    /// A page that redirects by itself. The redirect starts at a page of this site, so the browser
    /// sends all of its cookies.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn show_redirect(&self, to: &str) -> Result<Response<Body>> {
        let mut page = self.show_link(to)?;
        page.headers_mut().insert(
            REFRESH,
            HeaderValue::try_from(format!("0; url={to}")).map_err(Error::internal)?,
        );
        Ok(page)
    }

    /// A page with a link to the target.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn show_link(&self, to: &str) -> Result<Response<Body>> {
        let content = html! {
            section.card {
                h1 { "One moment" }
                p.lead { "You are being redirected." }
                a.button href=(to) { "Continue" }
            }
        };
        self.show("One moment", Width::Narrow, content, None)
    }

    fn nav(&self) -> Result<Markup> {
        Ok(html! {
            nav aria-label="Account" {
                a href=(self.page("/security")) { "Security" }
                a href=(self.page("/sessions")) { "Sessions" }
                (self.form("/sign-out", html! { button.link { "Sign out" } })?)
            }
        })
    }

    /// A form for a page, with the hidden fields of every form.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn form(&self, path: &str, content: Markup) -> Result<Markup> {
        Ok(html! {
            form method="post" action=(self.page(path)) { (self.hidden_fields()?) (content) }
        })
    }

    /// The hidden fields of every form.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn hidden_fields(&self) -> Result<Markup> {
        Ok(html! {
            input type="hidden" name="csrf" value=(self.csrf()?);
            @if let Some(target) = self.target_parameter() {
                input type="hidden" name="returnTo" value=(target);
            }
        })
    }

    /// A form that the script fills with the response of a passkey. Without JavaScript it is
    /// hidden.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn passkey_form(
        &self,
        step: &'static str,
        path: &str,
        more: Markup,
    ) -> Result<Markup> {
        let confirm = self.page("/confirm");
        Ok(html! {
            form hidden method="post" data-passkey=(step) data-api=(self.core.config.auth.mount)
                data-confirm=(confirm) action=(self.page(path)) {
                (self.hidden_fields()?)
                input type="hidden" name="token";
                input type="hidden" name="response";
                (more)
            }
        })
    }

    /// The message about the previous action or an error.
    pub(super) fn notice(&self, error: Option<&Error>) -> Markup {
        let bad = |text: &str| html! { div.notice.bad role="alert" { (text) } };
        match (
            error,
            texts::failed(self.query.get("failed")),
            texts::done(self.query.get("done")),
        ) {
            // The user is signed in, so only the password can be wrong.
            (Some(error), ..) if self.known.is_some() && error.code() == INVALID_CREDENTIALS => {
                bad("The password is not right.")
            }
            (Some(error), ..) => bad(&texts::of(&self.core, error)),
            (None, Some(failed), _) => bad(failed),
            (None, None, Some(done)) => {
                html! { div.notice.fine role="status" { (done) } }
            }
            (None, None, None) => Markup::default(),
        }
    }
}

/// Sets `Retry-After`.
fn set_retry_after(response: &mut Response<Body>, error: Option<&Error>) {
    if let Some(seconds) = error.and_then(Error::retry_after_seconds) {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// The page for an error that no other page can show.
pub(super) fn failed(core: &Core, error: &Error) -> Response<Body> {
    let status =
        StatusCode::from_u16(error.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_server_error() {
        tracing::error!(error = ?error, "a page cannot be rendered");
    }
    let content = html! {
        section.card {
            h1 { "Something went wrong" }
            div.notice.bad role="alert" { (texts::of(core, error)) }
            a.button href=(page(core, "/sign-in")) { "Start again" }
        }
    };
    let mut response = page_response(
        status,
        frame(
            core,
            "Something went wrong",
            Width::Narrow,
            &Markup::default(),
            &content,
        ),
    );
    set_retry_after(&mut response, Some(error));
    response
}

/// A field of a form.
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) kind: &'static str,
    /// The attribute `autocomplete`.
    pub(super) autocomplete: &'static str,
    pub(super) value: &'a str,
    pub(super) hint: &'static str,
    pub(super) required: bool,
    /// Whether the field gets the focus.
    pub(super) first: bool,
}

impl Field<'_> {
    pub(super) const TEXT: Field<'static> = Field {
        name: "",
        label: "",
        kind: "text",
        autocomplete: "off",
        value: "",
        hint: "",
        required: true,
        first: false,
    };
    pub(super) const PASSWORD: Field<'static> = Field {
        name: "password",
        label: "Password",
        kind: "password",
        autocomplete: "current-password",
        ..Field::TEXT
    };

    /// Renders the field, with its error if there is one.
    pub(super) fn show(&self, error: Option<&Error>) -> Markup {
        let problem = error.and_then(|error| {
            error
                .details()
                .iter()
                .find(|problem| problem.path == self.name)
        });
        let notes = format!("{}-told", self.name);
        let has_notes = problem.is_some() || !self.hint.is_empty();
        let token = self.name == "token";
        html! {
            div.field {
                label for=(self.name) { (self.label) }
                input id=(self.name) name=(self.name) type=(self.kind)
                    autocomplete=(self.autocomplete)
                    value=[Some(self.value).filter(|value| !value.is_empty())]
                    required[self.required] autofocus[self.first || problem.is_some()]
                    data-token[token] class=[token.then_some("code")]
                    spellcheck=[token.then_some("false")]
                    aria-invalid=[problem.map(|_| "true")]
                    aria-describedby=[has_notes.then_some(&notes)];
                div id=(notes) {
                    @if let Some(problem) = problem {
                        p.problem { (texts::sentence(&problem.message)) }
                    }
                    @if !self.hint.is_empty() {
                        p.hint { (self.hint) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_values_are_escaped() {
        let hostile = "<script>alert(1)</script>\" onload=\"x&\u{202e}\u{0}";
        let page = html! { p title=(hostile) { (hostile) } };
        let text = "&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;x&amp;";
        assert_eq!(
            without_hidden_characters(page),
            format!("<p title=\"{text}\">{text}</p>")
        );
    }
}
