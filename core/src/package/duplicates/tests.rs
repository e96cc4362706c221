use super::*;
use crate::operation::{Method, Seg};

fn same_paths(a: (&str, &[Seg]), b: (&str, &[Seg])) -> bool {
    // Leaked, because descriptors are static.
    let route = |segments: &[Seg]| RouteSpec {
        method: Method::Get,
        segments: segments.to_vec().leak(),
    };
    same(Base("", a.0), &route(a.1), Base("", b.0), &route(b.1))
}

#[test]
fn routes_that_differ_in_parameter_names_are_equal() {
    assert!(same_paths(
        ("posts", &[Seg::Param("id")]),
        ("posts", &[Seg::Param("slug")])
    ));
    assert!(!same_paths(
        ("posts", &[Seg::Param("id")]),
        ("posts", &[Seg::Lit("stats")])
    ));
    assert!(!same_paths(
        ("posts", &[Seg::Param("id")]),
        ("posts", &[Seg::Param("*rest")])
    ));
    assert!(same_paths(
        ("posts", &[Seg::Param("*a")]),
        ("posts", &[Seg::Param("*b")])
    ));
}

#[test]
fn paths_are_equal_after_collapsing_slashes_and_decoding() {
    assert!(same_paths(
        ("/news//posts/", &[]),
        ("news", &[Seg::Lit("posts")])
    ));
    assert!(same_paths(("caf%C3%A9", &[]), ("", &[Seg::Lit("café")])));
    assert!(same_paths(("a/{x}", &[]), ("a", &[Seg::Param("id")])));
    assert!(same_paths(("a/:x", &[]), ("a", &[Seg::Param("id")])));
    assert!(!same_paths(("Posts", &[]), ("posts", &[])), "case is kept");
    assert!(!same_paths(("posts", &[]), ("posts", &[Seg::Lit("a")])));
    // The text of a segment is already decoded.
    assert!(!same_paths(
        ("", &[Seg::Lit("a%20b")]),
        ("", &[Seg::Lit("a b")])
    ));
}

#[test]
fn routes_with_different_methods_do_not_collide() {
    let (get, post) = (
        RouteSpec {
            method: Method::Get,
            segments: &[],
        },
        RouteSpec {
            method: Method::Post,
            segments: &[],
        },
    );
    assert!(
        same(Base("", "a"), &get, Base("", "a"), &get)
            && !same(Base("", "a"), &get, Base("", "a"), &post)
    );
}

fn may_share_a_route(a: Base<'_>, b: Base<'_>) -> bool {
    may_meet(beginning(a), beginning(b))
}

#[test]
fn only_paths_with_a_common_prefix_are_compared() {
    assert!(
        may_share_a_route(Base("", "posts"), Base("", "posts/comments"))
            && may_share_a_route(Base("", ""), Base("", "posts"))
            && may_share_a_route(Base("", "{tenant}/a"), Base("", "posts"))
    );
    assert!(!may_share_a_route(Base("", "posts"), Base("", "comments")));
}

#[test]
fn both_comparisons_agree_for_routes_below_one_path() {
    let lists: [&[Seg]; 8] = [
        &[],
        &[Seg::Param("id")],
        &[Seg::Param("slug")],
        &[Seg::Param("*rest")],
        &[Seg::Lit("stats")],
        &[Seg::Lit("state")],
        &[Seg::Param("id"), Seg::Lit("stats")],
        &[Seg::Lit("a%20b")],
    ];
    for a in lists {
        for b in lists {
            let (a, b) = (
                RouteSpec {
                    method: Method::Get,
                    segments: a,
                },
                RouteSpec {
                    method: Method::Get,
                    segments: b,
                },
            );
            let same_with_path = same(Base("", "x"), &a, Base("", "x"), &b);
            assert_eq!(same_below(&a, &b), same_with_path, "{a:?} {b:?}");
        }
    }
}

#[test]
fn path_prefixes_are_percent_decoded() {
    assert!(may_share_a_route(
        Base("", "caf%C3%A9/a"),
        Base("", "café/b")
    ));
}
