//! `migrations!` over folders on disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use quote::quote;

use super::expand;

/// A package in a temporary folder.
struct Package(PathBuf);

impl Package {
    fn new(files: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("linchpin-migrations-{}-{number}", std::process::id());
        let package = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(package.0.join("migrations")).expect("a folder");
        for (file, text) in files {
            std::fs::write(package.0.join("migrations").join(file), text).expect("a file");
        }
        package
    }

    fn expand(&self) -> String {
        expand(quote!("migrations"), Some(&self.0)).to_string()
    }

    /// The errors of the expansion, without the help.
    fn errors(&self) -> Vec<String> {
        let text = self.expand();
        let errors = text.split("compile_error ! { \"linchpin: ").skip(1);
        let errors: Vec<String> = errors
            .map(|rest| rest.split("\\nhelp: ").next().unwrap_or(rest).to_owned())
            .collect();
        assert_eq!(text.contains("include_str"), errors.is_empty(), "{text}");
        errors
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn chain(files: &[&str]) -> String {
    let entries = files.iter().enumerate().map(|(i, file)| {
        let seq = i + 1;
        format!(r#"{{"seq": {seq}, "name": "m{seq}", "file": "{file}", "digest": "{DIGEST}"}}"#)
    });
    let entries: Vec<String> = entries.collect();
    format!(r#"{{"format": 2, "migrations": [{}]}}"#, entries.join(", "))
}

fn migration(seq: usize) -> String {
    format!(
        r#"{{
  "format": 2, "seq": {seq}, "name": "m{seq}", "parent": null,
  "snapshot": {{ "format": 2, "entities": {{}} }}, "snapshotDigest": "{DIGEST}",
  "changes": [],
  "transforms": [{{ "name": "a::b", "from": "string", "to": "integer", "body": "{DIGEST}" }}]
}}"#
    )
}

#[test]
fn files_of_the_chain_are_embedded_in_its_order() {
    let (two, one) = (migration(2), migration(1));
    let listed = chain(&["0002_b.json", "0001_a.json"]);
    let package = Package::new(&[
        ("chain.json", &listed),
        ("0001_a.json", &one),
        ("0002_b.json", &two),
        ("0003_left_over.json", "no JSON"),
    ]);
    let text = package.expand();
    assert!(!text.contains("compile_error"), "{text}");
    assert!(!text.contains("left_over"), "{text}");
    let at = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} in {text}"))
    };
    assert!(at("\"/migrations/chain.json\"") < at("\"/migrations/0002_b.json\""));
    assert!(at("\"/migrations/0002_b.json\"") < at("\"/migrations/0001_a.json\""));
    assert!(text.contains("transforms : & []"), "{text}");
}

#[test]
fn no_folder_and_no_chain_are_an_empty_chain() {
    let package = Package::new(&[("0001_a.json", "{}")]);
    for root in [package.0.clone(), package.0.join("nothing")] {
        let text = expand(quote!("migrations"), Some(&root)).to_string();
        assert!(text.contains("chain : \"\" , files : & []"), "{text}");
        assert!(!text.contains("compile_error"), "{text}");
    }
}

/// Compiles an app with the expansion, and returns the files that the compiler reports as read.
/// Cargo rebuilds the app if one of them changes.
fn dependencies(package: &Package) -> Vec<String> {
    let tokens = quote!("migrations", crate = crate::linchpin);
    let value = expand(tokens, Some(&package.0));
    let app = quote!(
        mod linchpin {
            pub mod __private {
                pub struct Chain {
                    pub chain: &'static str,
                    pub files: &'static [(&'static str, &'static str)],
                    pub transforms: &'static [()],
                    pub at: (),
                }
                pub const fn at(_: &str, _: u32) {}
            }
        }
        pub fn chain() -> linchpin::__private::Chain { #value }
    );
    let path = |name: &str| package.0.join(name);
    std::fs::write(path("app.rs"), app.to_string()).expect("a file");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(compiler)
        .args(["--edition=2024", "--crate-type=lib", "--emit=dep-info"])
        .args([
            path("app.rs").as_os_str(),
            "-o".as_ref(),
            path("app.d").as_os_str(),
        ])
        .env("CARGO_MANIFEST_DIR", &package.0)
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(path("app.d")).expect("a file");
    let folder = format!("{}/", path("migrations").display());
    let mut files: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_suffix(':')?.strip_prefix(&folder))
        .map(str::to_owned)
        .collect();
    files.sort();
    files
}

/// `migrate record` writes a new file and replaces the index. Cargo watches the index, so a plain
/// build embeds the new migration.
#[test]
fn the_compiler_reads_the_index_and_each_of_its_files() {
    let package = Package::new(&[
        ("chain.json", &chain(&["a.json"])),
        ("a.json", &migration(1)),
        ("left_over.json", "no JSON"),
    ]);
    assert_eq!(dependencies(&package), ["a.json", "chain.json"]);
    for (file, text) in [
        ("b.json", migration(2)),
        ("chain.json", chain(&["a.json", "b.json"])),
    ] {
        std::fs::write(package.0.join("migrations").join(file), text).expect("a file");
    }
    assert_eq!(dependencies(&package), ["a.json", "b.json", "chain.json"]);
}

/// A `chain.json` without migrations is a dependency of the app, so that the first recorded
/// migration causes a rebuild.
#[test]
fn a_chain_without_migrations_is_embedded() {
    let package = Package::new(&[("chain.json", r#"{ "format": 2, "migrations": [] }"#)]);
    let text = package.expand();
    assert!(text.contains("\"/migrations/chain.json\""), "{text}");
    assert!(text.contains("files : & []"), "{text}");
    assert!(!text.contains("compile_error"), "{text}");
}

#[test]
fn problems_between_files_are_no_errors_of_the_macro() {
    // As after a merge of two branches: two migrations with the same number, and a digest that does
    // not belong to the file.
    let twice = chain(&["a.json", "b.json"]).replace("\"seq\": 2", "\"seq\": 1");
    let package = Package::new(&[
        ("chain.json", &twice),
        ("a.json", &migration(1)),
        ("b.json", &migration(1)),
    ]);
    assert_eq!(package.errors(), [""; 0]);
}

#[test]
fn a_malformed_chain_is_an_error_with_its_path() {
    let sound = chain(&["a.json", "b.json"]);
    let cases = [
        (
            sound.replace("\"format\": 2", "\"format\": 3"),
            "$.format: unsupported format 3; this version of Linchpin reads format 2",
        ),
        (
            sound.replace("a.json", "../a.json"),
            "$.migrations[0].file: expected the name of a file in the same folder, without a path",
        ),
        (
            sound.replace("a.json", "c\\\\a.json"),
            "$.migrations[0].file: expected the name of a file in the same folder, without a path",
        ),
        (
            sound.replace("b.json", "a.json"),
            "$.migrations[1].file: file `a.json` is listed twice",
        ),
        (
            sound.replace("\"m2\"", "\"M2\""),
            "$.migrations[1].name: expected a name of the form [a-z][a-z0-9_]{0,62}",
        ),
        (
            sound.replace("\"seq\": 2", "\"seq\": 0"),
            "$.migrations[1].seq: expected a whole number of at least 1",
        ),
        (
            sound.replacen("89ab", "89AB", 1),
            "$.migrations[0].digest: expected 64 lower-case hexadecimal digits",
        ),
        (
            sound.replace("\"seq\": 2, ", ""),
            "$.migrations[1]: member `seq` is missing",
        ),
        (
            sound.replace("\"name\": \"m2\"", "\"name\": \"m2\", \"note\": 1"),
            "$.migrations[1].note: unknown member",
        ),
        (
            sound.replace("\"name\": \"m2\"", "\"name\": \"m2\", \"seq\": 2"),
            "$.migrations[1].seq: the member appears twice",
        ),
        ("[]".to_owned(), "$: expected an object"),
    ];
    for (text, expected) in cases {
        let package = Package::new(&[("chain.json", &text)]);
        assert_eq!(
            package.errors(),
            [format!("migrations/chain.json: {expected}")],
            "{text}"
        );
    }
}

#[test]
fn malformed_and_missing_files_are_reported_together() {
    let broken = migration(2).replace("\"parent\": null", "\"parent\": 7");
    let broken = broken.replace("\"body\": \"0", "\"body\": \"x");
    let package = Package::new(&[
        ("chain.json", &chain(&["a.json", "b.json", "c.json"])),
        ("a.json", "{\"format\": 2,\n"),
        ("b.json", &broken),
    ]);
    let errors = package.errors();
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert_eq!(
        errors[0],
        "migrations/a.json: $: expected the name of a member (line 2, column 1)"
    );
    assert!(
        errors[1].starts_with("migrations/c.json: cannot read the file: "),
        "{errors:?}"
    );
    assert_eq!(
        errors[2..],
        [
            "migrations/b.json: $.parent: expected 64 lower-case hexadecimal digits, or null",
            "migrations/b.json: $.transforms[0].body: expected 64 lower-case hexadecimal digits",
        ]
    );
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_out_of_the_folder_is_refused() {
    let package = Package::new(&[("chain.json", &chain(&["a.json"]))]);
    let outside = package.0.join("outside.json");
    std::fs::write(&outside, migration(1)).expect("a file");
    std::os::unix::fs::symlink(&outside, package.0.join("migrations/a.json")).expect("a link");
    assert_eq!(
        package.errors(),
        ["migrations/a.json: the file is a symbolic link to a file outside its folder"]
    );
}

#[test]
fn each_invalid_argument_is_one_error() {
    let error_count = |tokens: proc_macro2::TokenStream| {
        let text = expand(tokens, Some(std::path::Path::new("/nowhere"))).to_string();
        text.matches("compile_error").count()
    };
    assert_eq!(
        error_count(quote!("migrations", transforms = [a::b, c],)),
        0
    );
    assert_eq!(
        error_count(quote!("migrations", crate = ::framework::linchpin)),
        0
    );
    assert_eq!(error_count(quote!()), 1);
    assert_eq!(error_count(quote!(migrations)), 1);
    assert_eq!(error_count(quote!("/migrations")), 1);
    assert_eq!(error_count(quote!("")), 1);
    assert_eq!(error_count(quote!("migrations" transforms = [a])), 1);
    assert_eq!(error_count(quote!("migrations", transforms = a)), 1);
    assert_eq!(error_count(quote!("migrations", transforms = [1, a])), 1);
    assert_eq!(error_count(quote!("migrations", transform = [a])), 1);
    let text = expand(quote!("migrations"), None).to_string();
    assert!(text.contains("CARGO_MANIFEST_DIR` is not set"), "{text}");
}
