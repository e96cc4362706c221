//! Readable names of devices.

/// Longest name of a program, in characters.
const MAX_NAME_CHARS: usize = 30;

/// Returns a readable name for a user agent. The client chooses this header, and the name may be in
/// a mail to another person. So the result contains at most one word of the header, the name of a
/// program.
pub(crate) fn name(user_agent: Option<&str>) -> String {
    let Some(text) = user_agent else {
        return UNKNOWN.to_owned();
    };
    let find_name = |names: &[(&str, &'static str)]| {
        names
            .iter()
            .find(|(mark, _)| text.contains(mark))
            .map(|(_, name)| *name)
    };
    let browser = find_name(&[
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ]);
    let system = find_name(&[
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Android", "Android"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ]);
    match (browser, system) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => program(text).unwrap_or(UNKNOWN).to_owned(),
    }
}

const UNKNOWN: &str = "Unknown device";

/// The program of a user agent: `curl` for `curl/8.5`. It is one word without characters of an
/// address.
fn program(text: &str) -> Option<&str> {
    let name = text.split(['/', ' ']).next().unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ((1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(is_word)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_by_browser_and_system() {
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36";
        assert_eq!(name(Some(chrome)), "Chrome on Linux");
        let safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Mobile/15E148 Safari/604.1";
        assert_eq!(name(Some(safari)), "Safari on iPhone");
        assert_eq!(
            (
                name(Some("curl/8.5")).as_str(),
                name(Some("my-app")).as_str()
            ),
            ("curl", "my-app")
        );
    }

    #[test]
    fn user_agents_with_urls_give_no_device_name() {
        for text in [
            None,
            Some(""),
            Some(" x"),
            Some("https://evil.test/now"),
            Some("evil.test"),
            Some("call\u{202e}me"),
            Some("/"),
        ] {
            assert_eq!(name(text), UNKNOWN, "{text:?}");
        }
        assert_eq!(name(Some(&"x".repeat(31))), UNKNOWN);
        assert_eq!(
            name(Some(
                "Hello! Secure your account at https://evil.test Chrome/1"
            )),
            "Chrome"
        );
    }
}
