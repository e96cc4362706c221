//! `migrations!`: the recorded migrations of an app as one value. The expansion includes the files,
//! so that the binary contains them and cargo rebuilds the app when they change.

mod form;
mod json;
#[cfg(test)]
mod tests;

use std::path::{Path as FilePath, PathBuf};

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, LitStr, Path, Token};

use crate::diagnostics::Diagnostics;
use crate::fragments::plain;
use crate::options::{self, Opt};

/// The maximum size of a file in bytes: 16 MiB.
const MAX_SIZE: u64 = 16 << 20;
const CHAIN: &str = "chain.json";
const EXAMPLE: &str = "`migrations!(\"migrations\")`";

/// `migrations!("migrations", transforms = [names::split])`.
pub(crate) fn run(input: TokenStream) -> TokenStream {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    expand(input, root.as_deref())
}

/// The expansion; `root` is the folder of the package.
fn expand(input: TokenStream, root: Option<&FilePath>) -> TokenStream {
    let mut d = Diagnostics::new();
    let args = Args::parse(input, &mut d);
    let files = args.folder.as_ref().and_then(|folder| {
        let Some(root) = root else {
            d.error(
                folder,
                "`CARGO_MANIFEST_DIR` is not set: cargo sets it to the folder of the package",
            )
            .help("build with cargo, or set the variable");
            return None;
        };
        check_folder(folder, &mut d).then(|| read(root, folder, &mut d))?
    });
    let (krate, transforms) = (&args.krate, &args.transforms);
    let path = |file: &str| {
        let path = format!(
            "/{}/{file}",
            args.folder.as_ref().map(LitStr::value).unwrap_or_default()
        );
        quote!(::core::include_str!(
            ::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), #path)
        ))
    };
    let chain = files.as_ref().map_or_else(|| quote!(""), |_| path(CHAIN));
    let files = files.iter().flatten().map(|file| {
        let text = path(file);
        quote!((#file, #text))
    });
    let files = quote!(&[#(#files),*]);
    let errors = d.finish();
    quote!({
        #errors
        use #krate::__private as __lp;
        const CHAIN: __lp::Chain = __lp::Chain {
            chain: #chain,
            files: #files,
            transforms: &[#(<#transforms as __lp::Transform>::DESC),*],
            at: __lp::at(::core::file!(), ::core::line!()),
        };
        CHAIN
    })
}

struct Args {
    folder: Option<LitStr>,
    transforms: Vec<Path>,
    krate: TokenStream,
}

impl Args {
    fn parse(input: TokenStream, d: &mut Diagnostics) -> Self {
        let read = |input: ParseStream<'_>| {
            let folder = input.parse::<LitStr>()?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
            Ok((folder, input.parse::<TokenStream>()?))
        };
        let mut args = Self {
            folder: None,
            transforms: Vec::new(),
            krate: quote!(::linchpin),
        };
        let rest = match read.parse2(plain(input)) {
            Ok((folder, rest)) => {
                args.folder = Some(folder);
                rest
            }
            Err(error) => {
                d.error_at(
                    error.span(),
                    format!("the first argument of `migrations!` must be the folder of the migrations: {error}"),
                )
                .help(EXAMPLE);
                return args;
            }
        };
        let options = options::parse(rest, d);
        options::repeated(&options, &[], d);
        for opt in &options {
            match opt.name().as_str() {
                "transforms" => args.transforms = paths(opt, d),
                "crate" => {
                    if let Some(path) = opt.path("crate = ::framework::linchpin", d) {
                        args.krate = quote!(#path);
                    }
                }
                _ => options::unknown(opt, "migrations", &["transforms", "crate"], &[], d),
            }
        }
        args
    }
}

/// `[names::split, size]`.
fn paths(opt: &Opt, d: &mut Diagnostics) -> Vec<Path> {
    const EXAMPLE: &str = "transforms = [names::split]";
    let Some(value) = opt.expr(EXAMPLE, d) else {
        return Vec::new();
    };
    let Expr::Array(array) = value else {
        d.error(value, "`transforms` needs a list of paths")
            .help(format!("`{EXAMPLE}`"));
        return Vec::new();
    };
    let mut paths = Vec::new();
    for item in &array.elems {
        match item {
            Expr::Path(path) if path.qself.is_none() => paths.push(path.path.clone()),
            other => d
                .error(other, "`transforms` needs paths of functions")
                .help(format!("`{EXAMPLE}`")),
        }
    }
    paths
}

/// Checks that the folder is a relative path with `/` between its parts.
fn check_folder(folder: &LitStr, d: &mut Diagnostics) -> bool {
    let text = folder.value();
    let valid = !text.is_empty()
        && !text.contains(['\\', '\0'])
        && !text.starts_with('/')
        && !text.ends_with('/')
        && FilePath::new(&text).is_relative();
    if !valid {
        d.error(
            folder,
            "the folder must be a path relative to the package folder, with `/` between its parts",
        )
        .help(EXAMPLE);
    }
    valid
}

/// Reads and checks `chain.json` and the files that it lists, and returns the names of these files.
/// `None` if there is no `chain.json`, or after an error.
fn read(root: &FilePath, folder: &LitStr, d: &mut Diagnostics) -> Option<Vec<String>> {
    let name = folder.value();
    let directory = root.join(&name);
    if !directory.join(CHAIN).try_exists().unwrap_or(true) {
        return None;
    }
    let mut load = |file: &str| match load(&directory, file) {
        Ok(json) => Some(json),
        Err((path, message)) => {
            report(folder, &format!("{name}/{file}"), &path, &message, d);
            None
        }
    };
    let chain = load(CHAIN)?;
    let files = match form::chain(&chain) {
        Ok(files) => files,
        Err(errors) => {
            for error in errors {
                report(
                    folder,
                    &format!("{name}/{CHAIN}"),
                    &error.path,
                    &error.message,
                    d,
                );
            }
            return None;
        }
    };
    let migrations: Vec<_> = files.iter().map(|file| load(file)).collect();
    let mut valid = true;
    for (file, migration) in files.iter().zip(migrations) {
        let Some(migration) = migration else {
            valid = false;
            continue;
        };
        for error in form::migration(&migration) {
            valid = false;
            report(
                folder,
                &format!("{name}/{file}"),
                &error.path,
                &error.message,
                d,
            );
        }
    }
    valid.then_some(files)
}

fn report(at: &LitStr, file: &str, path: &str, message: &str, d: &mut Diagnostics) {
    let place = if path.is_empty() { "" } else { ": " };
    d.error(at, format!("{file}{place}{path}: {message}"))
        .help("restore the file from version control, or write it with `migrate record`");
}

/// Reads one file. An error has a JSON path, which is empty if the file cannot be read.
fn load(directory: &FilePath, file: &str) -> Result<json::Json, (String, String)> {
    let path = directory.join(file);
    let without_path = |message: String| (String::new(), message);
    let cannot_read =
        |error: &std::io::Error| without_path(format!("cannot read the file: {error}"));
    // A link must not lead out of the folder.
    let canonical = |path: &FilePath| path.canonicalize().map_err(|error| cannot_read(&error));
    if canonical(&path)?.parent() != Some(&*canonical(directory)?) {
        return Err(without_path(
            "the file is a symbolic link to a file outside its folder".to_owned(),
        ));
    }
    let metadata = std::fs::metadata(&path).map_err(|error| cannot_read(&error))?;
    if !metadata.is_file() {
        return Err(without_path("not a file".to_owned()));
    }
    if metadata.len() > MAX_SIZE {
        return Err(without_path("the file is larger than 16 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| cannot_read(&error))?;
    json::parse(&text).map_err(|error| (error.path, error.message))
}
