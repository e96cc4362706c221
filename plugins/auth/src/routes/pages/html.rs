//! Markup. What stands in the source is markup; whatever comes from elsewhere is text, and escaped:
//! the types leave no other way.

/// A piece of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Markup as it is written in the source.
    pub(super) fn markup(&mut self, written: &'static str) {
        self.0.push_str(written);
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// What can be put into a page.
pub(super) trait Put {
    fn put(&self, out: &mut Html);
}

impl Put for str {
    fn put(&self, out: &mut Html) {
        for c in self.chars() {
            match c {
                '&' => out.0.push_str("&amp;"),
                '<' => out.0.push_str("&lt;"),
                '>' => out.0.push_str("&gt;"),
                '"' => out.0.push_str("&quot;"),
                '\'' => out.0.push_str("&#39;"),
                // What no text shows, and what could turn the direction of what stands behind it.
                c if c.is_control() && c != '\n' => {}
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                c => out.0.push(c),
            }
        }
    }
}

impl Put for String {
    fn put(&self, out: &mut Html) {
        self.as_str().put(out);
    }
}

impl Put for usize {
    fn put(&self, out: &mut Html) {
        self.to_string().put(out);
    }
}

impl Put for Html {
    fn put(&self, out: &mut Html) {
        out.0.push_str(&self.0);
    }
}

impl<T: Put + ?Sized> Put for &T {
    fn put(&self, out: &mut Html) {
        (**self).put(out);
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Html) {
        if let Some(one) = self {
            one.put(out);
        }
    }
}

impl<T: Put> Put for Vec<T> {
    fn put(&self, out: &mut Html) {
        for one in self {
            one.put(out);
        }
    }
}

/// Markup in quotes, and values in parentheses between it.
macro_rules! html {
    (@ $out:ident ($value:expr)) => { $crate::routes::pages::html::Put::put(&$value, &mut $out) };
    (@ $out:ident $markup:literal) => { $out.markup($markup) };
    ($($part:tt)*) => {{
        let mut out = $crate::routes::pages::html::Html::new();
        $($crate::routes::pages::html::html!(@ out $part);)*
        out
    }};
}
pub(super) use html;

#[cfg(test)]
mod tests {
    #[test]
    fn values_are_text_whatever_they_hold() {
        let hostile = "<script>alert('x')</script>\" onload=\"x&\u{202e}\u{0}";
        let page = html!("<p title=\"" (hostile) "\">" (Some(hostile)) (None::<String>) "</p>")
            .into_text();
        let text = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;x&amp;";
        assert_eq!(page, format!("<p title=\"{text}\">{text}</p>"));
        let items = vec![
            html!("<li>" ("a<b") "</li>"),
            html!("<li>" (2_usize) "</li>"),
        ];
        assert_eq!(
            html!("<ul>" (items) "</ul>").into_text(),
            "<ul><li>a&lt;b</li><li>2</li></ul>"
        );
    }
}
