//! Snapshots of expansions, and the model that operations read.

use proc_macro2::TokenStream;
use quote::quote;

use super::{EntityModel, Kind};
use crate::diagnostics::Diagnostics;
use crate::snapshot;

fn expand(name: &str, source: &str) {
    let (args, item) = snapshot::declaration(source);
    snapshot::assert(name, source, &super::run(&args, &item));
}

#[test]
fn a_small_entity_matches_its_snapshot() {
    expand(
        "entity_small",
        include_str!("../../tests/snapshot/entity_small.rs"),
    );
}

#[test]
fn a_full_entity_matches_its_snapshot() {
    expand(
        "entity_full",
        include_str!("../../tests/snapshot/entity_full.rs"),
    );
}

#[test]
fn a_guarded_entity_matches_its_snapshot() {
    expand(
        "entity_guarded",
        include_str!("../../tests/snapshot/entity_guarded.rs"),
    );
}

#[test]
fn a_related_entity_matches_its_snapshot() {
    expand(
        "entity_related",
        include_str!("../../tests/snapshot/entity_related.rs"),
    );
}

#[test]
fn a_gated_entity_matches_its_snapshot() {
    expand(
        "entity_gated",
        include_str!("../../tests/snapshot/entity_gated.rs"),
    );
}

#[test]
fn a_counting_entity_matches_its_snapshot() {
    expand(
        "entity_counting",
        include_str!("../../tests/snapshot/entity_counting.rs"),
    );
}

#[test]
fn a_searched_entity_matches_its_snapshot() {
    expand(
        "entity_searched",
        include_str!("../../tests/snapshot/entity_searched.rs"),
    );
}

#[test]
fn an_entity_with_computed_fields_matches_its_snapshot() {
    expand(
        "entity_computed",
        include_str!("../../tests/snapshot/entity_computed.rs"),
    );
}

/// The list has numbered pages and a default sort of several fields.
#[test]
fn an_entity_with_list_options_matches_its_snapshot() {
    expand(
        "entity_listed",
        include_str!("../../tests/snapshot/entity_listed.rs"),
    );
}

#[test]
fn an_entity_with_moved_routes_matches_its_snapshot() {
    expand(
        "entity_moved",
        include_str!("../../tests/snapshot/entity_moved.rs"),
    );
}

/// A declaration with four mistakes expands to four errors, and still to all items that other code
/// uses.
#[test]
fn a_broken_entity_matches_its_snapshot() {
    expand(
        "entity_broken",
        include_str!("../../tests/snapshot/entity_broken.rs"),
    );
}

#[test]
fn a_field_enum_matches_its_snapshot() {
    let source = include_str!("../../tests/snapshot/field_enum.rs");
    snapshot::assert(
        "field_enum",
        source,
        &super::field_enum(&derive_input(source)),
    );
}

#[test]
fn roles_match_their_snapshot() {
    let source = include_str!("../../tests/snapshot/roles.rs");
    snapshot::assert("roles", source, &crate::roles::run(&derive_input(source)));
}

#[test]
fn an_embedded_item_matches_its_snapshot() {
    let source = include_str!("../../tests/snapshot/embedded.rs");
    snapshot::assert("embedded", source, &super::embedded(&derive_input(source)));
}

fn derive_input(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|e| panic!("not tokens: {e}"))
}

/// With `crate = path`, the expansion uses only this path of the runtime.
#[test]
fn the_expansion_uses_only_the_declared_path_of_the_runtime() {
    let (args, entity) = snapshot::declaration(include_str!("../../tests/snapshot/entity_full.rs"));
    let args = quote!(crate = a::framework, #args);
    let (operation, constant) =
        snapshot::declaration(include_str!("../../tests/snapshot/op_exists_full.rs"));
    let (route, function) = snapshot::declaration(include_str!("../../tests/snapshot/route.rs"));
    let derived = |attribute: &str, source: &str| {
        derive_input(&format!("#[{attribute}(crate = a::framework)] {source}"))
    };
    let expansions = [
        super::run(&args, &entity),
        super::field_enum(&derived(
            "field",
            include_str!("../../tests/snapshot/field_enum.rs"),
        )),
        super::embedded(&derived(
            "field",
            include_str!("../../tests/snapshot/embedded.rs"),
        )),
        crate::roles::run(&derived(
            "role",
            include_str!("../../tests/snapshot/roles.rs"),
        )),
        crate::schema::expand(quote!({#operation} {#constant} {#args} {#entity})),
        crate::route::run(quote!(crate = a::framework, #route), function),
        crate::package::run(quote!(
            crate = a::framework,
            name = "all",
            entities = [entity(Post, [PUBLISH])]
        )),
    ];
    for expansion in expansions.map(|expansion| expansion.to_string()) {
        assert!(
            expansion.contains("a :: framework") && !expansion.contains(":: linchpin"),
            "{expansion}"
        );
    }
}

/// An entity with 8 fields expands to at most 200 lines without docs.
#[test]
fn an_entity_with_8_fields_expands_to_at_most_200_lines() {
    let (args, item) = snapshot::declaration(include_str!("../../tests/snapshot/entity_small.rs"));
    let expansion = super::run(&args, &item);
    let text = prettyplease::unparse(&syn::parse_quote!(#expansion));
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("///"))
        .count();
    assert!(code <= 200, "{code} lines");
}

/// Returns the model of a declaration, and its error messages.
fn model(args: TokenStream, item: TokenStream) -> (EntityModel, Vec<String>) {
    let mut d = Diagnostics::new();
    let model = EntityModel::parse(args, item, &mut d).unwrap_or_else(|| panic!("no model"));
    super::check::check(&model, &mut d);
    (model, d.into_texts())
}

#[test]
fn the_model_resolves_names_and_types() {
    let (model, problems) = model(
        quote!(
            namespace = "blog",
            unique(slug),
            index(author_id, desc(views)),
            sort = desc(views),
            version,
            routes(create(disabled))
        ),
        quote! {
            pub struct BlogPost {
                #[field(primary, default = uuid)]
                pub id: Uuid,
                pub slug: String,
                pub author_id: Option<String>,
                #[field(default = 0)]
                pub views: i64,
                pub r#type: std::option::Option<Status>,
                pub tags: Vec<String>,
                pub parts: Vec<Part>,
                #[field(private)]
                pub meta: serde_json::Value,
            }
        },
    );
    assert_eq!(problems, [""; 0]);
    assert_eq!(
        (model.path.as_str(), model.storage_name.as_str()),
        ("blog-posts", "blog_blog_posts")
    );
    let kinds: Vec<Kind> = model.fields.iter().map(|f| f.kind).collect();
    use Kind::{Integer, Items, Json, Other, String, StringArray, Uuid};
    assert_eq!(
        kinds,
        [
            Uuid,
            String,
            String,
            Integer,
            Other,
            StringArray,
            Items,
            Json,
            Integer
        ]
    );
    let optional: Vec<&str> = model
        .fields
        .iter()
        .filter(|f| f.optional)
        .map(|f| f.name.as_str())
        .collect();
    assert_eq!(optional, ["author_id", "type"]);
    assert_eq!(model.fields[2].wire, "authorId");
    let sort: Vec<_> = model
        .sort
        .iter()
        .map(|place| (place.field, place.desc))
        .collect();
    assert_eq!((model.primary, sort), (Some(0), vec![(3, true)]));
    assert!(
        model.identify_one_record(&[1])
            && model.identify_one_record(&[0, 3])
            && !model.identify_one_record(&[2, 3])
    );
    assert!(
        model.filterable(1) && model.filterable(2) && !model.filterable(5) && !model.filterable(7)
    );
    assert!(model.sortable(2) && model.sortable(3) && !model.sortable(1));
    assert!(model.fields[8].generated && model.fields[8].server_owned());
    assert_eq!(model.generated.module, "blog_post");
}

#[test]
fn several_mistakes_are_reported_together() {
    let (_, problems) = model(
        quote!(
            index(titel),
            unique(email, email),
            pagination(default = 300, max = 200),
            routes(delet(disabled))
        ),
        quote! {
            pub struct User {
                #[field(primary)]
                pub id: bool,
                #[field(range = 1..=2)]
                pub title: String,
                pub email: String,
            }
        },
    );
    assert_eq!(
        problems,
        [
            "linchpin: unknown route `delet`\nhelp: `delete`",
            "linchpin: unknown field `titel` in index\nhelp: `title`",
            "linchpin: primary key `id` must be String or i64, found bool\nhelp: `String`",
            "linchpin: `range` is not allowed on string field `title`\nhelp: `length = ..` bounds a text",
            "linchpin: field `email` repeated in unique\nhelp: name each field once",
            "linchpin: default_limit 300 exceeds max_limit 200\nhelp: `pagination(default = 200, max = 300)`",
        ]
    );
}

#[test]
fn module_names_that_are_keywords_are_escaped() {
    for (name, module) in [
        ("Type", "r#type"),
        ("Match", "r#match"),
        ("Crate", "crate_"),
        ("HTTPServer", "http_server"),
    ] {
        let ident = quote::format_ident!("{name}");
        let (model, _) = model(
            quote!(),
            quote!(struct #ident { #[field(primary)] id: String }),
        );
        assert_eq!(model.generated.module.to_string(), module);
    }
}

/// With invalid attributes or items, the expansion parses and contains an error of the macro.
#[test]
fn invalid_entities_expand_to_items_and_an_error() {
    let invalid = [
        "#[entity] struct Empty {}",
        "#[entity] fn function() {}",
        "#[entity] union Both { a: i64 }",
        "#[entity] struct Unit;",
        "#[entity(index())] struct A { #[field(primary)] id: String }",
        "#[entity(unique(global))] struct A { #[field(primary)] id: String, x: i64, }",
        "#[entity(index(1, \"a\", f(x), up(id), desc(id, id)))] struct A { #[field(primary)] id: String }",
        "#[entity(sort())] struct A { #[field(primary)] id: String }",
        "#[entity(routes(list, get = 1, auth = 7, roles = \"a\", roles = []))] struct A { #[field(primary)] id: String }",
        "#[entity(routes(timeout = \"99999999999999999999s\", max_body = 5))] struct A { #[field(primary)] id: String }",
        "#[entity(version = 3)] struct A { #[field(primary)] id: String, }",
        "#[entity(pagination(default = 0, max = \"a\", most = 3))] struct A { #[field(primary)] id: String }",
        "#[entity(=, ;, name)] struct A { #[field(primary)] id: String }",
        "#[entity] struct A { #[field] id: String, #[field = 3] b: i64, #[field(primary = 1)] c: String }",
        "#[entity] struct A { #[field(primary, length = 5)] id: String, #[field(range = ..)] b: i64 }",
        "#[entity] struct A { #[field(primary, each())] id: String, #[field(one_of())] b: i64 }",
        "#[entity] struct A { #[field(primary, length = -1..=5)] id: String, #[field(range = x..=y)] b: i64 }",
        "#[entity] struct A { #[field(primary)] id: String, #[field(default = now())] at: Timestamp }",
        "#[entity] struct A { #[field(primary)] id: String, #[field(default = 9007199254740992)] n: i64 }",
        "#[entity] struct A { #[field(primary)] id: String, #[cfg(test)] n: i64 }",
        "#[entity] struct A { #[field(primary)] id: String, __: i64 }",
    ];
    for source in invalid {
        let (args, item) = snapshot::declaration(source);
        let expansion = super::run(&args, &item);
        assert!(
            expansion.to_string().contains("linchpin: "),
            "no error: {source}"
        );
        assert!(
            syn::parse2::<syn::File>(expansion).is_ok(),
            "not a file: {source}"
        );
    }
}

#[test]
fn invalid_enums_expand_to_items_and_an_error() {
    let invalid = [
        "enum Void {}",
        "enum Generic<T> { A, B }",
        "enum A { B { x: i64 }, #[field(rename)] C, #[field(renam = \"d\")] D, #[field(rename = \"\")] E }",
        "union Both { a: i64 }",
        "struct Tuple(i64);",
    ];
    for source in invalid {
        for expansion in [
            super::field_enum(&derive_input(source)),
            super::embedded(&derive_input(source)),
        ] {
            assert!(
                expansion.to_string().contains("linchpin: "),
                "no error: {source}"
            );
            assert!(
                syn::parse2::<syn::File>(expansion).is_ok(),
                "not a file: {source}"
            );
        }
    }
}
