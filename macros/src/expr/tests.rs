//! Tests the descriptors of valid expressions, and the errors of invalid ones.

use quote::quote;
use syn::Expr;

use super::{Filter, Scope};
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;

fn entity() -> EntityModel {
    let mut d = Diagnostics::new();
    let item = quote! {
        struct Note {
            #[field(primary)]
            id: String,
            title: String,
            key: Uuid,
            status: Status,
            views: i64,
            score: f64,
            pinned: bool,
            tags: Vec<String>,
            meta: serde_json::Value,
            due_at: Option<Timestamp>,
        }
    };
    let model = EntityModel::parse(quote!(), item, &mut d).unwrap_or_else(|| panic!("no model"));
    d.ignore();
    model
}

/// Returns the descriptor without spaces, or the errors.
fn read(expr: &str) -> Result<String, Vec<String>> {
    let expr: Expr = syn::parse_str(expr).unwrap_or_else(|e| panic!("{expr}: {e}"));
    let (model, entity) = (entity(), syn::parse_quote!(Note));
    let mut d = Diagnostics::new();
    let filter = Filter::parse(&expr, &mut d);
    let mut scope = Scope::new(&model, &entity, &[], &mut d);
    let tokens = filter.and_then(|f| scope.filter(&f, &[])).map(|f| {
        crate::snapshot::numbered(&quote!(#f).to_string(), "$1")
            .replace(' ', "")
            .replace("__lp::", "")
            .replace("::linchpin::__private::", "")
    });
    let problems = d.into_texts();
    tokens.filter(|_| problems.is_empty()).ok_or(problems)
}

fn means(expr: &str, descriptor: &str) {
    assert_eq!(read(expr).as_deref(), Ok(descriptor), "{expr}");
}

fn fails(expr: &str, message: &str) {
    match read(expr) {
        Ok(tokens) => panic!("{expr} means {tokens}"),
        Err(problems) => assert!(
            problems.len() == 1 && problems[0].contains(message),
            "{expr}: {problems:#?}"
        ),
    }
}

#[test]
fn conditions_become_descriptors() {
    means("title == \"x\"", "cond(1,Op::Eq,is(||text(\"x\")))");
    means("title == SLUG", "cond(1,Op::Eq,is(||text(SLUG)))");
    means("views >= -3", "cond(4,Op::Gte,is(||of::<Note,4>(-3)))");
    means("score < 3", "cond(5,Op::Lt,is(||of::<Note,5>(3f64)))");
    means(
        "status != Status::Open",
        "cond(3,Op::Ne,is(||of::<Note,3>(Status::Open)))",
    );
    means("title == param(t)", "cond(1,Op::Eq,given(0))");
    means(
        "title == ctx(actor.tenantId)",
        "cond(1,Op::Eq,ctx(CtxPath::TenantId))",
    );
    means(
        "views == ctx(actor.claims.level)",
        "cond(4,Op::Eq,ctx(CtxPath::Claim(\"level\")))",
    );
    means("due_at <= now()", "cond(9,Op::Lte,NOW)");
    means("due_at.is_none()", "cond(9,Op::Eq,NULL)");
    means("due_at.is_some()", "cond(9,Op::Ne,NULL)");
    means(
        "due_at > \"1970-01-01T00:00:01Z\"",
        "cond(9,Op::Gt,is(||date(1000i64)))",
    );
    means("tags.has(\"x\")", "cond(7,Op::Has,is(||text(\"x\")))");
    means("pinned", "cond(6,Op::Eq,is(||of::<Note,6>(true)))");
    means("!pinned", "cond(6,Op::Eq,is(||of::<Note,6>(false)))");
    means("views.one_of(param(xs))", "cond(4,Op::In,given(0))");
    means(
        "title.none_of([param(a), param(b)])",
        "among(1,Op::Nin,&[given(0),given(1)])",
    );
}

#[test]
fn and_binds_stronger_than_or() {
    let all = "pinned && title == param(a) || (title == param(b) || title == param(a))";
    let tokens = read(all).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(tokens.starts_with("any(&[all(&["), "{tokens}");
    assert_eq!(
        tokens.matches("any(").count(),
        1,
        "alternatives are flat: {tokens}"
    );
    assert_eq!(
        (
            tokens.matches("given(0)").count(),
            tokens.matches("given(1)").count()
        ),
        (2, 1)
    );
}

#[test]
fn grammar_errors_are_reported_with_a_help() {
    fails(
        "\"x\" == title",
        "the left side of a condition must be a field",
    );
    fails("title = \"x\"", "expected a condition");
    fails("pinned & pinned", "unknown operator `&`\nhelp: `&&`");
    fails("title.contain(\"x\")", "unknown operator `contain`");
    fails("!(views == 1)", "`!` negates only a boolean field");
    fails("()", "the filter is empty");
    fails("title.one_of([])", "the list of `one_of` is empty");
    fails("title.one_of(\"x\")", "`one_of` takes a list");
    fails(
        "title == parm(x)",
        "unknown source of a value\nhelp: `param`",
    );
    fails("title == now", "`now` needs parentheses");
    fails("title == uuid()", "only in defaults");
    fails("title == param(a, b)", "`param` takes one name");
    fails("title == param(actor.id)", "help: `ctx(actor.id)`");
    fails(
        "title == ctx(actor.ids)",
        "`ctx(actor.ids)` is unknown\nhelp: `actor.id`",
    );
}

#[test]
fn type_errors_are_reported() {
    fails("nope == 1", "unknown field `nope` on Note");
    fails(
        "views.contains(\"1\")",
        "`contains` needs a string field, `views` is integer",
    );
    fails(
        "title.has(\"x\")",
        "`has` needs a list of strings, `title` is string\nhelp: `title.contains(..)`",
    );
    fails("tags == \"x\"", "help: `tags.has(..)`");
    fails("meta == 1", "`==` needs a scalar field, `meta` is json");
    fails("pinned > false", "`pinned` is boolean");
    fails(
        "title",
        "field `title` alone is not a condition: it is string",
    );
    fails(
        "views == \"1\"",
        "`\"1\"` is not a value of `views`, which is integer",
    );
    fails("views == 1.5", "is not a value of `views`");
    fails("views == 9007199254740992", "integer out of range");
    fails("title == 1", "is not a value of `title`");
    fails("key == \"x\"", "not a lower-case hyphenated UUID");
    fails("due_at == \"yesterday\"", "not an RFC 3339 date-time");
    fails("title == now()", "`now()` is a date, `title` is string");
    fails("views == ctx(actor.id)", "`views` is integer");
    fails("title.is_none()", "`title` is required: it is never null");
    fails(
        "title.contains(\"\")",
        "`contains(\"\")` matches every text; write at least one character",
    );
    fails("title.contains(None)", "`contains` is never true for null");
}

#[test]
fn a_parameter_with_two_types_or_sources_is_refused() {
    fails(
        "title == param(x) && views == param(x)",
        "parameter `x` is used as string and as integer",
    );
    fails(
        "title == param(x) && title.one_of(param(x))",
        "parameter `x` is used as string and as a list of string",
    );
    fails(
        "title == param(x) && title == input(x)",
        "parameter `x` comes from `param` and from `input`",
    );
    assert!(read("title == param(x) || title != param(x)").is_ok());
}

#[test]
fn filters_that_never_match_are_refused() {
    for expr in [
        "views > 5 && views < 3",
        "views == 1 && views == 2",
        "views > 3 && views <= 3",
        "views == 1 && views != 1",
    ] {
        fails(expr, "the filter can never match");
    }
    fails(
        "due_at.is_none() && due_at > \"1970-01-01T00:00:01Z\"",
        "the filter can never match",
    );
    for expr in [
        "views >= 3 && views <= 3",
        "views > 5 || views < 3",
        "views == 1 && score == 2",
        "views > 5 && (views < 3 || pinned)",
    ] {
        assert!(read(expr).is_ok(), "{expr}");
    }
}

#[test]
fn values_are_compared_instead_of_their_text() {
    for expr in [
        "score == 5 && score != 5.0",
        "views > 1_000 && views < 1000",
        "views > 4 && views < 5",
        "status == Status::Draft && status != crate::Status::Draft",
        "status == Status::Draft && status == Live",
        "due_at > \"2026-01-01T00:00:00Z\" && due_at < \"2026-01-01T01:00:00+01:00\"",
        "pinned && !pinned",
        "title == \"a\" && title > \"b\"",
        "title == \"abc\" && title.contains(\"D\")",
        "title.one_of([\"a\", \"b\"]) && title.none_of([\"b\", \"a\", \"c\"])",
        "title == param(t) && title != param(t)",
        "views >= param(n) && views < param(n)",
        "due_at.is_none() && due_at <= now()",
        "tags.has(\"x\") && pinned && !pinned",
        "(pinned || views > 5) && !pinned && views < 3",
        "views > 9007199254740991",
    ] {
        fails(expr, "the filter can never match");
    }
    for expr in [
        "status == Status::Draft && status == DEFAULT",
        "status == Status::DRAFT && status != Status::Draft",
        "title == TEXT && title != OTHER",
        "score > 4 && score < 5",
        "title > \"a\" && title < \"b\"",
        "title.contains(\"a\") && title.contains(\"b\")",
        "tags.has(\"x\") && tags.has(\"y\")",
        "views == param(a) && views != param(b)",
        "title == ctx(actor.id) && title != param(t)",
        "due_at.is_none() || due_at > now()",
        "pinned == param(p) && !pinned",
    ] {
        assert!(read(expr).is_ok(), "{expr}: {:?}", read(expr));
    }
}

#[test]
fn a_branch_that_never_matches_is_refused() {
    fails(
        "pinned || (views > 5 && views < 3)",
        "conditions on `views` exclude each other",
    );
    fails(
        "pinned || views > 9007199254740991",
        "`views` has no such value",
    );
    fails(
        "title == \"x\" && (pinned || (views > 5 && views < 3))",
        "conditions on `views` exclude each other",
    );
}

/// Whether the filter is refused because every record matches it; `None` if const evaluation
/// decides.
fn always(expr: &str) -> Option<bool> {
    let expr: Expr = syn::parse_str(expr).unwrap_or_else(|e| panic!("{expr}: {e}"));
    let (model, entity) = (entity(), syn::parse_quote!(Note));
    let mut d = Diagnostics::new();
    let filter = Filter::parse(&expr, &mut d).unwrap_or_else(|| panic!("no filter"));
    let mut scope = Scope::new(&model, &entity, &[], &mut d);
    let resolved = scope
        .filter(&filter, &["o".to_owned()])
        .unwrap_or_else(|| panic!("no filter"));
    let before = scope.asserts.len();
    super::refuse_always(&mut scope, &resolved, &[], 1, &expr, "always");
    let deferred = scope.asserts.len() > before;
    let problems = d.into_texts();
    if deferred {
        None
    } else {
        Some(!problems.is_empty())
    }
}

#[test]
fn filters_that_match_every_record_are_refused() {
    for expr in [
        "pinned || !pinned",
        "due_at.is_none() || due_at.is_some()",
        "views > 5 || views <= 5",
        "views < 5 || views > 4",
        "title != \"a\" || title != \"b\"",
        "score != 5 || score != 4.0",
        "title == param(t) || title != param(t)",
        "views >= param(n) || views < param(n)",
        "status != Status::Draft || status != crate::Status::Live",
        "status == Status::Draft || status != Status::Draft",
        "views >= -9007199254740991",
        "title >= \"\"",
        "pinned && views > 0 || !pinned || views <= 0",
    ] {
        assert_eq!(always(expr), Some(true), "{expr}");
    }
    for expr in [
        "pinned || views > 5",
        "due_at > now() || due_at <= now()",
        "score == ctx(actor.claims.at) || score != ctx(actor.claims.at)",
        "title == param(o) || title != param(o)",
        "score < 5 || score > 4.5 && pinned",
        "title == \"a\" || title == \"b\"",
        "status == DEFAULT || status == OTHER",
        "tags.has(\"x\") || title.contains(\"y\")",
    ] {
        assert_eq!(always(expr), Some(false), "{expr}");
    }
    for expr in [
        "status == Status::Draft",
        "status.one_of([Status::Draft, Status::Live])",
        "status != Status::EUR || status != Status::USD",
    ] {
        assert_eq!(always(expr), None, "{expr}");
    }
}
