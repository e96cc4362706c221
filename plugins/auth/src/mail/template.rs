//! Mails from templates and variables. Values are data: they cannot add lines to a subject or
//! markup to a body.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Mail, MailKind};

/// A template. `{{name}}` is replaced by a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The subject: one line.
    pub subject: String,
    /// The plain text body.
    pub text: String,
    /// The HTML body; without one it is made from `text`.
    pub html: Option<String>,
}

/// The templates of an app: the defaults, and those that replace them.
#[derive(Clone, Debug)]
pub struct Templates(BTreeMap<MailKind, Template>);

impl Default for Templates {
    fn default() -> Self {
        let default_template = |kind: MailKind| {
            let (subject, text) = kind.default_texts();
            (
                kind,
                Template {
                    subject: subject.into(),
                    text: text.into(),
                    html: None,
                },
            )
        };
        Self(
            MailKind::ALL
                .iter()
                .copied()
                .map(default_template)
                .collect(),
        )
    }
}

impl Templates {
    /// Replaces a template.
    ///
    /// # Errors
    /// If it uses a variable that this kind does not have, if it does not use the link or code of
    /// this kind, or if the subject has more than one line.
    pub fn replace(&mut self, kind: MailKind, template: Template) -> Result<(), String> {
        let kind_name = kind.name();
        if template.subject.chars().any(char::is_control) {
            return Err(format!("the subject of `{kind_name}` must be one line"));
        }
        let bodies = [Some(&template.text), template.html.as_ref()];
        for part in bodies.into_iter().flatten().chain([&template.subject]) {
            for name in
                variable_names(part).map_err(|e| format!("the template `{kind_name}` {e}"))?
            {
                if name != "app" && !kind.variables().contains(&name) {
                    let known = kind.variables().join("`, `");
                    return Err(format!(
                        "the template `{kind_name}` uses the unknown variable `{name}`; the variables are \
                         `app`, `{known}`"
                    ));
                }
            }
        }
        for needed in kind
            .variables()
            .iter()
            .filter(|v| matches!(**v, "link" | "code"))
        {
            if bodies
                .into_iter()
                .flatten()
                .any(|body| !body.contains(&format!("{{{{{needed}}}}}")))
            {
                return Err(format!(
                    "the template `{kind_name}` must contain `{{{{{needed}}}}}`"
                ));
            }
        }
        self.0.insert(kind, template);
        Ok(())
    }

    /// Renders a mail. A variable without a value is empty.
    pub(crate) fn render(
        &self,
        to: String,
        kind: MailKind,
        locale: Option<String>,
        vars: BTreeMap<String, String>,
    ) -> Mail {
        // Every kind has a template from the start.
        let fallback = Template {
            subject: kind.default_texts().0.into(),
            text: kind.default_texts().1.into(),
            html: None,
        };
        let template = self.0.get(&kind).unwrap_or(&fallback);
        let plain = |name: &str| {
            let value = vars.get(name).map_or("", String::as_str);
            if matches!(name, "at" | "due") {
                instant(value)
            } else {
                one_line(value)
            }
        };
        let subject = fill(&template.subject, plain);
        let text = fill(&template.text, plain);
        let html = match &template.html {
            Some(html) => fill(html, |name| escaped(&plain(name))),
            None => page(&template.text, plain),
        };
        Mail {
            to,
            kind,
            locale,
            subject,
            text,
            html,
            vars,
        }
    }
}

/// The variables in a text.
fn variable_names(text: &str) -> Result<Vec<&str>, &'static str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").ok_or("has `{{` without `}}`")?;
        found.push(name);
        rest = after;
    }
    Ok(found)
}

/// Replaces the variables in a text. Values are not parsed: a value that contains `{{code}}` shows
/// that text.
fn fill(text: &str, value: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((front, after)) = rest.split_once("{{") {
        out.push_str(front);
        let Some((name, after)) = after.split_once("}}") else {
            rest = "";
            break;
        };
        out.push_str(&value(name));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Formats a time for people: `23 November 2026 at 04:41 UTC`. The reader's time zone is unknown.
/// The variable of the mail keeps the original form, for mailers that format it themselves.
fn instant(value: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let formatted = || {
        let at = value.parse::<linchpin::Timestamp>().ok()?.to_string();
        let month = MONTHS.get(at.get(5..7)?.parse::<usize>().ok()?.checked_sub(1)?)?;
        Some(format!(
            "{} {month} {} at {} UTC",
            at.get(8..10)?.trim_start_matches('0'),
            at.get(..4)?,
            at.get(11..16)?
        ))
    };
    formatted().unwrap_or_else(|| one_line(value))
}

/// Replaces line breaks and other control characters in a value by spaces.
fn one_line(value: &str) -> String {
    value
        .chars()
        .map(|c| {
            if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
                ' '
            } else {
                c
            }
        })
        .collect()
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Converts a plain text to HTML: each paragraph becomes a `<p>`, addresses become links, and codes
/// get a larger font.
fn page(text: &str, value: impl Fn(&str) -> String) -> String {
    let mut out = String::from(
        "<!doctype html><html><body style=\"font-family:sans-serif;line-height:1.5\">",
    );
    for paragraph in text.split("\n\n") {
        // Writing to a string cannot fail.
        let _ = match paragraph {
            "{{link}}" => {
                let link = escaped(&value("link"));
                write!(out, "<p><a href=\"{link}\">{link}</a></p>")
            }
            "{{code}}" => write!(
                out,
                "<p style=\"font-size:1.6em;letter-spacing:.15em\"><strong>{}</strong></p>",
                escaped(&value("code"))
            ),
            prose => write!(
                out,
                "<p>{}</p>",
                fill(&escaped(prose), |name| escaped(&value(name)))
            ),
        };
    }
    out.push_str("</body></html>");
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn instants_in_mail_are_readable() {
        assert_eq!(
            instant("2026-11-03T04:05:06.789Z"),
            "3 November 2026 at 04:05 UTC"
        );
        for other in ["", "soon\nnow", "2026-13-03T04:05:06.789Z"] {
            assert_eq!(instant(other), one_line(other));
        }
    }

    fn vars<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
        pairs
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    fn render(kind: MailKind, vars: BTreeMap<String, String>) -> Mail {
        Templates::default().render("a@x.test".into(), kind, None, vars)
    }

    #[test]
    fn the_default_templates_pass_the_template_check() {
        for kind in MailKind::ALL {
            let (subject, text) = kind.default_texts();
            let own = Template {
                subject: subject.into(),
                text: text.into(),
                html: None,
            };
            Templates::default().replace(*kind, own).unwrap();
            for name in kind.variables() {
                assert!(
                    text.contains(&format!("{{{{{name}}}}}")),
                    "the text of {} does not contain {name}",
                    kind.name()
                );
            }
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            let mail = render(*kind, BTreeMap::new());
            assert!(
                !mail.text.contains("{{") && !mail.html.contains("{{") && !mail.subject.is_empty()
            );
        }
        assert_eq!(MailKind::ALL.len(), 28);
    }

    #[test]
    fn a_link_and_a_code_are_in_both_bodies() {
        let mail = render(
            MailKind::PasswordReset,
            vars([
                ("link", "https://x.test/r#token=a&b=\"c"),
                ("app", "Acme <3"),
            ]),
        );
        assert!(mail.text.contains("\n\nhttps://x.test/r#token=a&b=\"c\n\n"));
        assert!(
            mail.html
                .contains("<a href=\"https://x.test/r#token=a&amp;b=&quot;c\">"),
            "{}",
            mail.html
        );
        assert!(mail.html.contains("Acme &lt;3") && mail.text.contains("Acme <3"));
        let mail = render(MailKind::EmailOtp, vars([("code", "012345")]));
        assert!(
            mail.text.contains("\n\n012345\n\n") && mail.html.contains("<strong>012345</strong>")
        );
    }

    #[test]
    fn values_add_neither_lines_nor_markup_nor_variables() {
        let mut templates = Templates::default();
        let own = Template {
            subject: "Hi {{device}}".into(),
            text: "{{device}} {{ip}}".into(),
            html: Some("<b title='{{device}}'>".into()),
        };
        templates.replace(MailKind::NewDeviceLogin, own).unwrap();
        let hostile = "x\r\nBcc: e@evil.test\u{2028}' onclick='{{ip}}<script>";
        let mail = templates.render(
            "a@x.test".into(),
            MailKind::NewDeviceLogin,
            None,
            vars([("device", hostile), ("ip", "192.0.2.1")]),
        );
        assert_eq!(
            mail.subject,
            "Hi x  Bcc: e@evil.test ' onclick='{{ip}}<script>"
        );
        assert_eq!(
            mail.html,
            "<b title='x  Bcc: e@evil.test &#39; onclick=&#39;{{ip}}&lt;script&gt;'>"
        );
        assert_eq!(mail.text.lines().count(), 1);
    }

    #[test]
    fn invalid_templates_are_refused() {
        let with = |subject: &str, text: &str, html: Option<&str>| Template {
            subject: subject.into(),
            text: text.into(),
            html: html.map(Into::into),
        };
        let refused = |template| {
            Templates::default()
                .replace(MailKind::MagicLink, template)
                .unwrap_err()
        };
        assert!(refused(with("a\nb", "{{link}}", None)).contains("one line"));
        assert!(refused(with("a", "{{link}} {{lnk}}", None)).contains("`lnk`"));
        assert!(refused(with("{{code}}", "{{link}}", None)).contains("`code`"));
        assert!(refused(with("a", "no link", None)).contains("{{link}}"));
        assert!(refused(with("a", "{{link}}", Some("<p>"))).contains("{{link}}"));
        assert!(refused(with("a", "{{link}} {{app", None)).contains("without"));
        Templates::default()
            .replace(
                MailKind::MagicLink,
                with("{{app}}", "{{link}}", Some("<a href='{{link}}'>")),
            )
            .unwrap();
    }

    #[test]
    fn debug_output_contains_no_mail_content() {
        let mail = render(MailKind::EmailOtp, vars([("code", "012345")]));
        assert_eq!(format!("{mail:?}"), "Mail { kind: EmailOtp, .. }");
    }

    proptest! {
        #[test]
        fn values_add_no_lines_tags_or_control_characters(value: String) {
            let mail = render(MailKind::PasskeyAdded, vars([("name", &value), ("app", &value)]));
            let bare = render(MailKind::PasskeyAdded, vars([]));
            prop_assert_eq!(mail.text.lines().count(), bare.text.lines().count());
            prop_assert_eq!(mail.html.matches('<').count(), bare.html.matches('<').count());
            prop_assert!(!mail.subject.chars().any(char::is_control));
        }

        #[test]
        fn arbitrary_templates_cause_no_panic(text in "([{}]{1,3}|[a-z]{1,4}|\\PC){0,12}") {
            let _ = variable_names(&text);
            fill(&text, str::to_owned);
            page(&text, str::to_owned);
        }
    }
}
