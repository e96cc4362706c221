//! `history(size = 500, ttl = "1h")`: the bounds of a stream.

use darling::FromMeta;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt, Rest};
use crate::policy::quantity::duration;

const EXAMPLE: &str = "history(size = 500, ttl = \"1h\")";
const MAX_SIZE: i64 = 10_000;
const MAX_TTL: u64 = 7 * 86_400_000;

/// The declared bounds; `None` stands for the default.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct History {
    size: Option<u32>,
    /// Milliseconds.
    ttl: Option<u64>,
}

#[derive(Debug, Default, FromMeta)]
struct Keys {
    size: Option<Opt>,
    ttl: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

impl History {
    /// Reads the option.
    pub(crate) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Self> {
        let list = opt.list(EXAMPLE, d)?;
        if list.is_empty() {
            d.error(&opt.key, "`history` is empty")
                .help(format!("`{EXAMPLE}`"));
            return None;
        }
        let keys: Keys = options::table(options::read(list, d), &[], d);
        keys.rest.refuse("history", &["size", "ttl"], &[], d);
        let size = keys.size.and_then(|opt| {
            let value = opt.expr("size = 500", d)?;
            match options::as_int(value) {
                Some(Ok(size)) if (0..=MAX_SIZE).contains(&size) => u32::try_from(size).ok(),
                _ => {
                    d.error(
                        value,
                        format!("history.size must be a whole number within 0..={MAX_SIZE}"),
                    )
                    .help("`size = 500`; with 0 a client cannot resume");
                    None
                }
            }
        });
        let ttl = keys.ttl.and_then(|opt| {
            let text = opt.text("ttl = \"1h\"", d)?;
            let millis = duration(&text, "history.ttl", "ttl = \"1h\"", d)?;
            if millis > MAX_TTL {
                d.error(&text, "history.ttl must be at most 7 days")
                    .help("`ttl = \"7d\"`");
                return None;
            }
            Some(millis)
        });
        Some(Self { size, ttl })
    }

    /// Returns the call on the descriptor, with the given defaults for missing bounds.
    pub(crate) fn tokens(self, (size, ttl): (u32, u64)) -> TokenStream {
        let size = Literal::u32_unsuffixed(self.size.unwrap_or(size));
        let ttl = Literal::u64_unsuffixed(self.ttl.unwrap_or(ttl));
        quote!(.history(#size, #ttl))
    }
}
