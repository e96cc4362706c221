//! The error type of all calls, and the codes of errors.

use std::borrow::Cow;
use std::fmt;

/// The result of a call of Linchpin.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A problem in an input, with its position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// `title`, `tags[2]`, `query:limit`, `header:If-Match`, `path:docId`; empty for the whole
    /// body.
    pub path: String,
    /// A stable code, such as `required` or `max_length`.
    pub code: &'static str,
    /// A sentence for people. It may change between versions.
    pub message: String,
}

impl Problem {
    /// A problem of `code` at `path`.
    pub fn new(path: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            code,
            message: message.into(),
        }
    }
}

/// The stable code of an error. Each code has one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// 400: the body is not valid JSON, or it ended early.
    MalformedJson,
    /// 400: values that violate the declared fields; `details` lists each problem.
    ValidationFailed,
    /// 400: an unknown query parameter.
    UnknownParameter,
    /// 400: a cursor of another list, or a changed cursor.
    InvalidCursor,
    /// 400: the transition does not start in the record's state.
    InvalidTransition,
    /// 401: the caller has no credential, or an invalid one.
    Unauthorized,
    /// 403: the caller is authenticated but not allowed.
    Forbidden,
    /// 404: the route does not exist, or the caller may see no such record.
    NotFound,
    /// 405: the path has only other methods; `Allow` lists them.
    MethodNotAllowed,
    /// 409: a unique value is taken, or the record was changed concurrently.
    Conflict,
    /// 409: a list within a record has its maximum number of items.
    CollectionFull,
    /// 409: the key was used with another request.
    IdempotencyConflict,
    /// 409: the first request with this key is still running.
    IdempotencyInProgress,
    /// 412: `If-Match` does not name the current version of the record.
    PreconditionFailed,
    /// 413: the body is longer than the limit of the route.
    BodyTooLarge,
    /// 414: the query string is longer than 8 KiB.
    UriTooLong,
    /// 415: the body is not `application/json`.
    UnsupportedMediaType,
    /// 428: the entity requires `If-Match`.
    PreconditionRequired,
    /// 429: too many calls; `Retry-After` gives the time to wait.
    RateLimited,
    /// 500: an internal error; only the log contains the cause.
    Internal,
    /// 503: the store or a queue is unavailable; `Retry-After` gives the time to wait.
    Unavailable,
    /// 503: an open migration does not allow the write yet, or it changed the database during the
    /// call; `Retry-After` gives the time to wait.
    SchemaPending,
    /// 504: the call exceeded the timeout of the route.
    Timeout,
    /// A code of a package or plugin with its status.
    Other(u16, &'static str),
}

impl Code {
    /// The HTTP status of the code.
    pub const fn status(self) -> u16 {
        match self {
            Self::MalformedJson
            | Self::ValidationFailed
            | Self::UnknownParameter
            | Self::InvalidCursor
            | Self::InvalidTransition => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict
            | Self::CollectionFull
            | Self::IdempotencyConflict
            | Self::IdempotencyInProgress => 409,
            Self::PreconditionFailed => 412,
            Self::BodyTooLarge => 413,
            Self::UriTooLong => 414,
            Self::UnsupportedMediaType => 415,
            Self::PreconditionRequired => 428,
            Self::RateLimited => 429,
            Self::Internal => 500,
            Self::Unavailable | Self::SchemaPending => 503,
            Self::Timeout => 504,
            Self::Other(status, _) => status,
        }
    }

    /// The code as text, as in the body.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MalformedJson => "malformed_json",
            Self::ValidationFailed => "validation_failed",
            Self::UnknownParameter => "unknown_parameter",
            Self::InvalidCursor => "invalid_cursor",
            Self::InvalidTransition => "invalid_transition",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Conflict => "conflict",
            Self::CollectionFull => "collection_full",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::IdempotencyInProgress => "idempotency_in_progress",
            Self::PreconditionFailed => "precondition_failed",
            Self::BodyTooLarge => "body_too_large",
            Self::UriTooLong => "uri_too_long",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::PreconditionRequired => "precondition_required",
            Self::RateLimited => "rate_limited",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::SchemaPending => "schema_pending",
            Self::Timeout => "timeout",
            Self::Other(_, code) => code,
        }
    }
}

/// The error of a call. It is boxed, so that a `Result` stays one word wide.
pub struct Error(Box<Inner>);

struct Inner {
    code: Code,
    message: Cow<'static, str>,
    details: Vec<Problem>,
    retry_after: Option<u32>,
    conflicting_write: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `code` with a sentence for people.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            details: Vec::new(),
            retry_after: None,
            conflicting_write: false,
            source: None,
        }))
    }

    /// 400 `validation_failed` with its problems, ordered by path.
    pub fn validation(mut problems: Vec<Problem>) -> Self {
        problems.sort();
        Self::new(Code::ValidationFailed, "The request is not valid").with_details(problems)
    }

    /// 400 `validation_failed` with one problem.
    pub fn invalid(problem: Problem) -> Self {
        Self::validation(vec![problem])
    }

    /// 404 `not_found`.
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "Not found")
    }

    /// 401 `unauthorized`.
    pub fn unauthorized() -> Self {
        Self::new(Code::Unauthorized, "Authentication is required")
    }

    /// 403 `forbidden`.
    pub fn forbidden() -> Self {
        Self::new(Code::Forbidden, "You may not do this")
    }

    /// 500 `internal`: the cause goes to the log, never to the client.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let mut error = Self::new(Code::Internal, "Internal error");
        error.0.source = Some(cause.into());
        error
    }

    /// 503 `unavailable` with `Retry-After: 1`: the cause goes to the log, never to the client.
    pub fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let mut error =
            Self::new(Code::Unavailable, "The service is not available right now").retry_after(1);
        error.0.source = Some(cause.into());
        error
    }

    /// 503 `schema_pending` with `Retry-After: 1`: an open migration does not allow a write yet, or
    /// has changed the database during a transaction. The cause goes to the log, never to the
    /// client.
    pub fn schema_pending(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let mut error = Self::new(
            Code::SchemaPending,
            "A migration of the database is not finished; try again",
        )
        .retry_after(1);
        error.0.source = Some(cause.into());
        error
    }

    /// A start-up error; its text is for the person who starts the app.
    #[doc(hidden)]
    pub fn at_startup(cause: crate::StartupError) -> Self {
        let mut error = Self::new(Code::Internal, cause.to_string());
        error.0.source = Some(Box::new(cause));
        error
    }

    /// Returns the structured reason of a start-up error, if there is one.
    pub fn startup(&self) -> Option<&crate::StartupError> {
        self.0.source.as_ref()?.downcast_ref()
    }

    /// 413 `body_too_large`; `max` is the limit in bytes, if it is known.
    #[doc(hidden)]
    pub fn too_large(max: Option<u64>) -> Self {
        let most = max.map_or_else(String::new, |max| {
            format!(": at most {max} bytes are allowed")
        });
        Self::new(Code::BodyTooLarge, format!("The body is too large{most}"))
    }

    /// 409 `conflict`: another record has the same values in the unique fields with these wire
    /// names. The error never contains the values.
    pub fn unique<'a>(fields: impl IntoIterator<Item = &'a str>) -> Self {
        let details = fields
            .into_iter()
            .map(|f| Problem::new(f, "unique", "is already taken"))
            .collect();
        Self::new(Code::Conflict, "The record conflicts with an existing one").with_details(details)
    }

    /// Replaces the details.
    #[must_use]
    pub fn with_details(mut self, details: Vec<Problem>) -> Self {
        self.0.details = details;
        self
    }

    /// Sets `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// 409 `conflict`: other callers changed the record in each attempt.
    #[doc(hidden)]
    pub fn kept_changing() -> Self {
        Self::new(
            Code::Conflict,
            "Other callers changed the record at the same time; try again",
        )
    }

    /// Marks a conflict with another transaction, so that the transaction may be retried.
    #[must_use]
    #[doc(hidden)]
    pub fn conflicting_write(mut self) -> Self {
        self.0.conflicting_write = true;
        self
    }

    /// Whether the cause is a conflict with another transaction.
    #[doc(hidden)]
    pub fn is_conflicting_write(&self) -> bool {
        self.0.conflicting_write
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The sentence for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// All problems of the input.
    pub fn details(&self) -> &[Problem] {
        &self.0.details
    }

    /// Seconds of `Retry-After`.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.0.retry_after
    }
}

/// Returns the causes of an error, the nearest first.
#[doc(hidden)]
pub fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause| cause.source())
}

/// `{:?}` writes lines for people: a failed `fn main() -> linchpin::Result<()>` and a failed test
/// print them. `{:#?}` writes the fields.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            let mut out = f.debug_struct("Error");
            out.field("code", &self.0.code.as_str())
                .field("message", &self.0.message);
            return out
                .field("details", &self.0.details)
                .field("source", &self.0.source)
                .finish();
        }
        f.write_str(&self.0.message)?;
        if self.0.code != Code::Internal {
            write!(f, " ({})", self.0.code.as_str())?;
        }
        for problem in &self.0.details {
            write!(f, "\n  {}: {}", problem.path, problem.message)?;
        }
        causes(self).try_for_each(|cause| write!(f, "\n  because: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for problem in &self.0.details {
            write!(f, "; {}: {}", problem.path, problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|e| e as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_of_an_error_is_readable_lines() {
        let problems = vec![
            Problem::new("LINCHPIN_PORT", "invalid", "must be a port"),
            Problem::new("LINCHPIN_PROT", "unknown", "what?"),
        ];
        let error =
            Error::new(Code::Internal, "The configuration is not valid").with_details(problems);
        assert_eq!(
            format!("{error:?}"),
            "The configuration is not valid\n  LINCHPIN_PORT: must be a port\n  LINCHPIN_PROT: what?"
        );
        assert!(format!("{error:#?}").starts_with("Error {"));

        let error = Error::unavailable(std::io::Error::other("disk gone"));
        let text = format!("{error:?}");
        assert!(
            text.contains(" (unavailable)") && text.ends_with("\n  because: disk gone"),
            "{text}"
        );
    }
}
