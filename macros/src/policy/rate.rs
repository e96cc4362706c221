//! `rate_limit`: the maximum number of calls of one caller.

use darling::FromMeta;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::LitStr;

use super::quantity::duration;
use crate::diagnostics::Diagnostics;
use crate::list::List;
use crate::options::{self, Opt, OptValue, Rest};

const SHORT: &str = "rate_limit = \"20/s\"";
const LONG: &str = "rate_limit(max = 20, window = \"1s\")";

/// The number of calls and the window.
#[derive(Debug, Clone)]
pub(crate) struct RateLimit {
    max: u32,
    /// The window in milliseconds.
    window: u64,
    by_address: bool,
    fail_open: bool,
}

/// The keys of the long form.
#[derive(Debug, Default, FromMeta)]
struct Keys {
    max: Option<Opt>,
    window: Option<Opt>,
    key: Option<Opt>,
    fail_open: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

/// Reads the short form `rate_limit = "20/s"` or the long form `rate_limit(..)`.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<RateLimit> {
    match &opt.value {
        OptValue::List(list) => long(opt, list.clone(), d),
        _ => short(&opt.text(SHORT, d)?, "rate_limit", SHORT, d),
    }
}

/// Reads `"20/s"`, `"10/15min"` as the option `of`.
pub(crate) fn short(
    text: &LitStr,
    of: &str,
    example: &str,
    d: &mut Diagnostics,
) -> Option<RateLimit> {
    let value = text.value();
    let Some((max, window)) = value.split_once('/') else {
        d.error(
            text,
            format!("`{of}` must be a number and a unit of time, with `/` between them"),
        )
        .help(format!("`{example}`"));
        return None;
    };
    let max = match max.trim().parse::<u32>() {
        Ok(0) => {
            d.error(text, format!("{of}.max must be greater than 0"))
                .help(format!("`{example}`"));
            return None;
        }
        Ok(max) => max,
        Err(_) => {
            d.error(
                text,
                format!("`{of}` must be a number and a unit of time, with `/` between them"),
            )
            .help(format!("`{example}`"));
            return None;
        }
    };
    let window = window.trim();
    let window = if window.starts_with(|c: char| c.is_ascii_digit()) {
        window.to_owned()
    } else {
        format!("1{window}")
    };
    let window = duration(
        &LitStr::new(&window, text.span()),
        &format!("{of}.window"),
        &format!("{of} = \"10/15min\""),
        d,
    )?;
    Some(RateLimit {
        max,
        window,
        by_address: false,
        fail_open: false,
    })
}

fn long(opt: &Opt, list: List, d: &mut Diagnostics) -> Option<RateLimit> {
    let keys: Keys = options::table(options::read(list, d), &[], d);
    keys.rest
        .refuse("rate_limit", &["max", "window", "key", "fail_open"], &[], d);
    for (name, missing) in [
        ("max", keys.max.is_none()),
        ("window", keys.window.is_none()),
    ] {
        if missing && keys.rest.0.is_empty() {
            d.error(&opt.key, format!("rate_limit needs `{name}`"))
                .help(format!("`{LONG}`"));
        }
    }
    let max = keys.max.and_then(|opt| max(&opt, d));
    let window = keys.window.and_then(|opt| {
        duration(
            &opt.text("window = \"1s\"", d)?,
            "rate_limit.window",
            "window = \"1s\"",
            d,
        )
    });
    let by_address = keys.key.is_some_and(|opt| match opt.ident("key = ip", d) {
        Some(word) if word == "ip" => true,
        Some(word) => {
            d.error(&word, format!("unknown key `{word}` of rate_limit"))
                .help("`key = ip`, or leave `key` out to count the calls of each actor");
            false
        }
        None => false,
    });
    let fail_open = keys.fail_open.is_some_and(|opt| opt.flag(d));
    Some(RateLimit {
        max: max?,
        window: window?,
        by_address,
        fail_open,
    })
}

fn max(opt: &Opt, d: &mut Diagnostics) -> Option<u32> {
    let value = opt.expr("max = 20", d)?;
    match options::as_int(value).and_then(Result::ok) {
        Some(max) if max <= 0 => {
            d.error(value, "rate_limit.max must be greater than 0")
                .help("`max = 20`");
            None
        }
        Some(max) if u32::try_from(max).is_ok() => u32::try_from(max).ok(),
        _ => {
            d.error(
                value,
                format!("`max` must be a whole number from 1 to {}", u32::MAX),
            )
            .help("`max = 20`");
            None
        }
    }
}

impl RateLimit {
    /// Whether the limit allows more calls than `max`, or has a longer window than `window`
    /// milliseconds.
    pub(crate) fn exceeds(&self, max: u32, window: u64) -> bool {
        self.max > max || self.window > window
    }

    /// Returns the descriptor.
    pub(crate) fn value(&self) -> TokenStream {
        let (max, window) = (
            Literal::u32_unsuffixed(self.max),
            Literal::u64_unsuffixed(self.window),
        );
        let by_address = self.by_address.then(|| quote!(.by_address()));
        let fail_open = self.fail_open.then(|| quote!(.fail_open()));
        quote!(__lp::RateLimit::new(#max, #window) #by_address #fail_open)
    }

    /// Returns a call on the descriptor of a policy.
    pub(super) fn tokens(&self) -> TokenStream {
        let value = self.value();
        quote!(.rate_limit(#value))
    }
}
