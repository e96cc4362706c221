//! The marks of variants as written: `#[on(..)]`, `#[publish]`, `#[relay(..)]`, `#[incoming(..)]`.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Expr, Ident, LitStr, Meta, Path, Token};

use super::names;
use crate::diagnostics::{Diagnostics, nearest};
use crate::list::List;
use crate::options::{self, Opt};
use crate::policy::rate::{self, RateLimit};
use crate::readable::Readable;

pub(super) const MARKS: &[&str] = &["on", "publish", "relay", "incoming"];

/// `Thread::created`: an entity, and a route of it that changes records.
#[derive(Debug, Clone)]
pub(crate) struct EventPath {
    pub(crate) entity: Path,
    pub(crate) word: Word,
    /// The last segment as written.
    pub(crate) at: Ident,
}

/// The last segment of an [`EventPath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    Created,
    Updated,
    Deleted,
    /// The const of an operation.
    Operation(String),
}

impl EventPath {
    /// Splits a path into the entity and the event. A path of one segment is an error.
    pub(crate) fn of(path: &Path, d: &mut Diagnostics) -> Option<Self> {
        let mut entity = path.clone();
        let last = entity.segments.pop()?;
        entity.segments.pop_punct();
        let at = last.ident;
        if entity.segments.is_empty() {
            d.error(path, format!("event `{at}` needs its entity"))
                .help(format!("write the entity before it: `Thread::{at}`"));
            return None;
        }
        Some(Self {
            entity,
            word: Word::of(&at),
            at,
        })
    }

    /// `Thread::created`, for messages.
    pub(crate) fn path_text(&self) -> String {
        format!("{}::{}", path_text(&self.entity), self.at.unraw())
    }
}

impl Word {
    pub(crate) fn of(ident: &Ident) -> Self {
        match ident.unraw().to_string().as_str() {
            "created" => Self::Created,
            "updated" => Self::Updated,
            "deleted" => Self::Deleted,
            other => Self::Operation(other.to_owned()),
        }
    }
}

/// A path without spaces, for messages.
pub(super) fn path_text(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}

/// One mark with its options.
#[derive(Debug)]
pub(super) struct Mark {
    /// The word: `on`.
    pub(super) word: Ident,
    pub(super) kind: Kind,
    /// `event = ".."`.
    pub(super) name: Option<LitStr>,
    /// `alias = [..]`.
    pub(super) alias: Vec<LitStr>,
}

/// The direction of a variant's events, with its options.
#[derive(Debug)]
pub(super) enum Kind {
    On(OnArgs),
    Publish {
        ephemeral: bool,
    },
    Relay {
        rate: Option<RateLimit>,
        echo: bool,
    },
    Operation {
        event: EventPath,
        by: Option<Ident>,
    },
    Handler(Path),
    /// A mark with an error that has been reported.
    Unreadable,
}

/// `#[on(Thread::created, Thread::PUBLISH, by = container_id, when(..))]`.
#[derive(Debug)]
pub(super) struct OnArgs {
    pub(super) events: Vec<EventPath>,
    pub(super) by: Option<Ident>,
    pub(super) when: Option<Expr>,
}

/// A path, or an option.
enum Part {
    Path(Path),
    Option(Box<Readable>),
}

impl Parse for Part {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let fork = input.fork();
        if let Ok(path) = fork.call(Path::parse_mod_style)
            && (fork.is_empty() || fork.peek(Token![,]))
        {
            input.call(Path::parse_mod_style)?;
            return Ok(Self::Path(path));
        }
        input.parse().map(Box::new).map(Self::Option)
    }
}

/// Whether an attribute is a mark.
pub(super) fn is_mark(attr: &Attribute) -> bool {
    attr.path()
        .get_ident()
        .is_some_and(|word| MARKS.contains(&word.to_string().as_str()))
}

/// Returns the mark that a misspelt attribute means.
pub(super) fn misspelt_mark(attr: &Attribute) -> Option<&'static str> {
    let word = attr.path().get_ident()?.to_string();
    nearest(&word, MARKS.iter().copied()).filter(|_| !is_mark(attr))
}

impl Mark {
    /// Reads a mark.
    pub(super) fn read(attr: &Attribute, d: &mut Diagnostics) -> Option<Self> {
        let word = attr.path().get_ident()?.clone();
        let list = match &attr.meta {
            Meta::Path(_) => None,
            Meta::List(list) => Some(List::of(list)),
            Meta::NameValue(pair) => {
                d.error(&pair.value, format!("`{word}` takes a list"))
                    .help(format!("`#[{}]`", example(&word.to_string())));
                return Some(Self::unreadable(word));
            }
        };
        let name = word.to_string();
        if list.as_ref().is_none_or(List::is_empty) && (name == "on" || name == "incoming") {
            d.error(&word, format!("`{name}` is empty"))
                .help(format!("`#[{}]`", example(&name)));
            return Some(Self::unreadable(word));
        }
        let (mut paths, mut opts) = (Vec::new(), Vec::new());
        for part in list
            .map(|list| options::each::<Part>(list, d))
            .unwrap_or_default()
        {
            match part {
                Part::Path(path) => paths.push(path),
                Part::Option(read) => {
                    let Readable { option, error } = *read;
                    if let Some(error) = error {
                        d.syntax(&error);
                    }
                    opts.extend(
                        d.take(
                            <Opt as darling::FromMeta>::from_nested_meta(&option)
                                .map_err(syn::Error::from),
                        ),
                    );
                }
            }
        }
        Some(Self::of(word, paths, opts, d))
    }

    fn unreadable(word: Ident) -> Self {
        Self {
            word,
            kind: Kind::Unreadable,
            name: None,
            alias: Vec::new(),
        }
    }

    fn of(word: Ident, mut paths: Vec<Path>, mut opts: Vec<Opt>, d: &mut Diagnostics) -> Self {
        let mark = word.to_string();
        // In `publish` and `relay` every bare word is an option. In other marks a bare word is an
        // option only if `publish` or `relay` has an option of this name.
        let flags = ["ephemeral", "echo", "rate"];
        let (words, events): (Vec<Path>, Vec<Path>) = paths.drain(..).partition(|path| {
            path.get_ident().is_some_and(|word| {
                mark == "publish" || mark == "relay" || flags.iter().any(|flag| word == flag)
            })
        });
        opts.extend(words.iter().filter_map(Path::get_ident).map(|key| Opt {
            key: key.clone(),
            value: options::OptValue::Flag,
        }));
        options::repeated(&opts, &[], d);
        let mut read = Options::default();
        for opt in &opts {
            read.option(opt, &mark, d);
        }
        let Options {
            by,
            when,
            name,
            alias,
            ephemeral,
            rate,
            echo,
        } = read;
        let kind = match mark.as_str() {
            "on" if events.is_empty() => {
                d.error(&word, "`on` needs at least one event")
                    .help(format!("`#[{}]`", example("on")));
                Kind::Unreadable
            }
            "on" => Kind::On(OnArgs {
                events: events
                    .iter()
                    .filter_map(|path| EventPath::of(path, d))
                    .collect(),
                by,
                when,
            }),
            "incoming" => incoming(&word, &events, by, d),
            "publish" => {
                refuse(&events, "publish", d);
                Kind::Publish { ephemeral }
            }
            _ => {
                refuse(&events, "relay", d);
                Kind::Relay { rate, echo }
            }
        };
        Self {
            word,
            kind,
            name,
            alias,
        }
    }
}

fn refuse(paths: &[Path], mark: &str, d: &mut Diagnostics) {
    for path in paths {
        d.error(path, format!("`{mark}` does not take events of entities"))
            .help(format!(
                "write `#[on({})]` to forward this event",
                path_text(path)
            ));
    }
}

fn incoming(word: &Ident, paths: &[Path], by: Option<Ident>, d: &mut Diagnostics) -> Kind {
    let Some(path) = paths.first() else {
        d.error(word, "`incoming` needs an operation or a function")
            .help(format!("`#[{}]`", example("incoming")));
        return Kind::Unreadable;
    };
    for more in &paths[1..] {
        d.error(more, "`incoming` runs one operation or one function")
            .help("declare a separate variant for each");
    }
    let last = path
        .segments
        .last()
        .map(|segment| segment.ident.unraw().to_string());
    // As in `package!`: functions are in lower case, operations are consts.
    if last.is_some_and(|last| last.chars().any(char::is_uppercase)) {
        return match EventPath::of(path, d) {
            Some(event) => Kind::Operation { event, by },
            None => Kind::Unreadable,
        };
    }
    if let Some(by) = by {
        d.error(&by, "`by` needs an operation, not a function")
            .help("remove it: the function gets the room as an argument");
    }
    Kind::Handler(path.clone())
}

fn example(mark: &str) -> &'static str {
    match mark {
        "on" => "on(Thread::created, by = container_id)",
        "incoming" => "incoming(Thread::PIN, by = container_id)",
        "publish" => "publish(ephemeral)",
        _ => "relay(rate = \"2/s\")",
    }
}

/// The options of all marks.
#[derive(Default)]
struct Options {
    by: Option<Ident>,
    when: Option<Expr>,
    name: Option<LitStr>,
    alias: Vec<LitStr>,
    ephemeral: bool,
    rate: Option<RateLimit>,
    echo: bool,
}

impl Options {
    fn option(&mut self, opt: &Opt, mark: &str, d: &mut Diagnostics) {
        let name = opt.name();
        let marks_with_option = marks_with(&name);
        if !OPTION_NAMES.contains(&name.as_str()) {
            let options_of_mark = OPTION_NAMES
                .iter()
                .copied()
                .filter(|option| marks_with(option).contains(&mark));
            options::unknown(opt, mark, &options_of_mark.collect::<Vec<_>>(), &[], d);
            return;
        }
        if !marks_with_option.contains(&mark) {
            d.error(
                &opt.key,
                format!(
                    "`{name}` belongs to `{}`",
                    marks_with_option.join("` and `")
                ),
            )
            .help(format!(
                "leave it out, or `#[{}]`",
                example(marks_with_option[0])
            ));
            return;
        }
        match name.as_str() {
            "by" => self.by = opt.ident("by = container_id", d),
            "when" => self.when = when(opt, d),
            "event" => self.name = names::read(opt, d),
            "alias" => self.alias = names::read_aliases(opt, d),
            "ephemeral" => self.ephemeral = opt.flag(d),
            "rate" => self.rate = relay_rate(opt, d),
            _ => self.echo = opt.flag(d),
        }
    }
}

const OPTION_NAMES: &[&str] = &["by", "when", "event", "alias", "ephemeral", "rate", "echo"];

/// The marks that have an option.
fn marks_with(option: &str) -> &'static [&'static str] {
    match option {
        "by" => &["on", "incoming"],
        "when" => &["on"],
        "alias" => &["on", "publish", "relay"],
        "ephemeral" => &["publish"],
        "rate" | "echo" => &["relay"],
        _ => MARKS,
    }
}

fn when(opt: &Opt, d: &mut Diagnostics) -> Option<Expr> {
    const EXAMPLE: &str = "when(status == Status::Published)";
    let list = opt.list(EXAMPLE, d)?;
    if list.is_empty() {
        d.error(&opt.key, "`when` is empty")
            .help("remove `when` to send every event");
        return None;
    }
    d.take(list.parse())
}

fn relay_rate(opt: &Opt, d: &mut Diagnostics) -> Option<RateLimit> {
    let text = opt.text("rate = \"2/s\"", d)?;
    let rate = rate::short(&text, "rate", "rate = \"2/s\"", d)?;
    if rate.exceeds(1_000, 3_600_000) {
        d.error(
            &text,
            "rate must be at most 1,000 frames in a time window of at most one hour",
        )
        .help("`rate = \"2/s\"`");
        return None;
    }
    Some(rate)
}
