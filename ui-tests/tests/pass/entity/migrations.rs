//! Data for migrations: former names, line numbers of fields, digests of functions, transforms.
//! They are valid and similar to the mistakes in `fail/entity/transform` and
//! `fail/entity/computed`.
use linchpin::entity::Kind;
use linchpin::prelude::*;
use linchpin::transforms::{
    self, EnumText, TransformDesc, TransformFrom, TransformInput, integer_to_string,
};
use linchpin::{Value, ValueRef};

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Size {
    Small,
    Large,
}

mod names {
    use linchpin::prelude::*;

    #[transform(reverse = join)]
    pub fn split(full: String) -> Result<Vec<String>, TransformError> {
        Ok(full.split(' ').map(str::to_owned).collect())
    }

    #[transform]
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn join(parts: Vec<String>) -> std::result::Result<String, TransformError> {
        Ok(parts.join(" "))
    }

    pub mod keys {
        /// The key of a name.
        #[linchpin::computed]
        pub fn slug_key(post: &super::super::Customer) -> String {
            post.display.join("-").to_lowercase()
        }
    }
}

use names::split;

#[transform]
fn size(old: EnumText) -> Result<Size, TransformError> {
    Size::from_str(&old.0).ok_or_else(|| TransformError::new("no size"))
}

/// The argument is an `Option`, so the function gets null values too.
#[transform]
fn year(old: Option<String>) -> Result<Option<i64>, TransformError> {
    old.map(|text| text.parse().map_err(|_| "not a year".into()))
        .transpose()
}

#[transform]
fn owner(record: &OldRecord<'_>) -> Result<String, TransformError> {
    record.get::<String>("email")
}

#[transform]
fn ratio(record: &transforms::OldRecord<'_>) -> Result<f64, TransformError> {
    Ok(1.0 / record.get::<f64>("count")?)
}

fn plain(post: &Customer) -> i64 {
    post.display.len() as i64
}

#[entity(rename_from = "clients")]
pub struct Customer {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(rename_from = ["full_name", "name"], transform = split)]
    pub display: Vec<String>,
    #[field(transform = size)]
    pub size: Size,
    // The type inside the `Option`, and the `Option` itself.
    #[field(transform = transforms::string_to_integer_strict)]
    pub count: Option<i64>,
    #[field(transform = year)]
    pub year: Option<i64>,
    #[field(transform = owner)]
    pub owner: String,
    #[field(transform = ratio)]
    pub ratio: f64,
    #[field(transform = integer_to_string)]
    pub number: String,
    #[field(computed(names::keys::slug_key, from(display)))]
    pub slug_key: String,
    #[field(computed = plain)]
    pub parts: i64,
}

fn field(name: &str) -> &'static linchpin::entity::FieldDesc {
    let mut fields = Customer::DESC.fields.iter();
    fields.find(|field| field.name == name).unwrap()
}

fn transform_of(name: &str) -> &'static TransformDesc {
    field(name).transform.unwrap()
}

fn run(name: &str, old: ValueRef<'_>) -> Result<Value, TransformError> {
    (transform_of(name).run)(TransformInput::Value(old))
}

#[test]
fn names_and_lines_are_recorded() {
    assert_eq!(Customer::DESC.rename_from, ["clients"]);
    assert_eq!(field("display").rename_from, ["full_name", "name"]);
    assert_eq!(field("size").rename_from, [""; 0]);
    let declaration = include_str!("migrations.rs").lines();
    for field in Customer::DESC.fields {
        let line = declaration.clone().nth(field.line as usize - 1).unwrap();
        assert!(
            line.contains(&format!("pub {}: ", field.name)),
            "{}: {line}",
            field.name
        );
    }
}

#[test]
fn computed_functions_are_recorded() {
    let computed = |name| field(name).computed.unwrap();
    assert_eq!(computed("slug_key").name, "names::keys::slug_key");
    let body = computed("slug_key").body;
    assert!(
        body.len() == 64 && body.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        "{body}"
    );
    assert_eq!(
        (computed("parts").name, computed("parts").body),
        ("plain", "")
    );
}

#[test]
fn transforms_are_recorded_and_run() {
    let split = transform_of("display");
    assert_eq!(split.name, concat!(module_path!(), "::names::split"));
    assert_eq!(split.at.file, file!());
    assert_eq!(
        (split.body.len(), split.reverse.unwrap().body.len()),
        (64, 64)
    );
    assert_ne!(split.body, split.reverse.unwrap().body);
    assert!(matches!(split.to.kind, Kind::StringArray) && !split.to.optional);
    assert!(matches!(split.from, TransformFrom::Value(old) if matches!(old.kind, Kind::String)));
    let parts = Value::Strings(vec!["Ada".to_owned(), "Lovelace".to_owned()]);
    assert_eq!(
        run("display", ValueRef::Text("Ada Lovelace")),
        Ok(parts.clone())
    );
    let back = (split.reverse.unwrap().run)(TransformInput::Value(parts.as_ref()));
    assert_eq!(back, Ok(Value::Text("Ada Lovelace".to_owned())));

    assert_eq!(
        run("size", ValueRef::Text("large")),
        Ok(Value::Text("large".to_owned()))
    );
    assert_eq!(run("size", ValueRef::Text("huge")), Err("no size".into()));
    assert_eq!(run("count", ValueRef::Text("7")), Ok(Value::Int(7)));
    assert!(run("count", ValueRef::Text("07")).is_err());
    assert_eq!(run("year", ValueRef::Null), Ok(Value::Null));
    assert!(matches!(transform_of("year").from, TransformFrom::Value(old) if old.optional));
    assert_eq!(
        run("number", ValueRef::Int(-3)),
        Ok(Value::Text("-3".to_owned()))
    );
    assert_eq!(
        transform_of("number").name,
        "linchpin::transforms::integer_to_string"
    );
    // A value of another type, and null for a function without an `Option`, are refused.
    assert!(run("number", ValueRef::Text("3")).is_err());
    assert!(run("count", ValueRef::Null).is_err());
}

#[test]
fn fills_read_the_old_record() {
    let fill = |name: &str, values: &[Value]| {
        let record = OldRecord::new(&["email", "count"], values);
        (transform_of(name).run)(TransformInput::Record(&record))
    };
    let mut values = [Value::Text("a@b".to_owned()), Value::Float(4.0)];
    assert!(matches!(transform_of("owner").from, TransformFrom::Record));
    assert_eq!(fill("owner", &values), Ok(Value::Text("a@b".to_owned())));
    assert_eq!(fill("ratio", &values), Ok(Value::Float(0.25)));
    // Values that no store can hold are refused.
    values = [Value::Text("a\0b".to_owned()), Value::Float(0.0)];
    assert!(fill("owner", &values).is_err());
    assert!(fill("ratio", &values).is_err());
    let missing = fill("owner", &[]).unwrap_err().to_string();
    assert!(missing.starts_with("field `email`: "), "{missing}");
    let record = OldRecord::new(&["count"], &values);
    let unknown = record.get::<String>("email").unwrap_err().to_string();
    assert_eq!(unknown, "the record has no field `email`; it has: `count`");
    let value = (transform_of("owner").run)(TransformInput::Value(ValueRef::Null));
    assert!(value.is_err());
}

#[test]
fn entities_can_be_declared_in_a_function_body() {
    #[transform]
    fn upper(old: String) -> Result<String, TransformError> {
        Ok(old.to_uppercase())
    }

    #[computed]
    fn key(local: &Local) -> String {
        local.title.clone()
    }

    #[entity]
    struct Local {
        #[field(primary)]
        id: String,
        #[field(transform = upper)]
        title: String,
        #[field(computed = key)]
        key: String,
    }

    assert_eq!(Local::DESC.fields[1].transform.unwrap().body.len(), 64);
    assert_eq!(Local::DESC.fields[2].computed.unwrap().body.len(), 64);
    assert_eq!(upper("a".to_owned()), Ok("A".to_owned()));
}

#[test]
fn recorded_migrations_are_embedded() {
    use linchpin::__private::Chain;

    const CHAIN: Chain =
        linchpin::migrations!("tests/pass/recorded", transforms = [names::join, owner]);
    assert_eq!(CHAIN.chain, include_str!("../recorded/chain.json"));
    let file = include_str!("../recorded/0001_nothing.json");
    assert_eq!(CHAIN.files, [("0001_nothing.json", file)]);
    let names: Vec<&str> = CHAIN
        .transforms
        .iter()
        .map(|transform| transform.name)
        .collect();
    assert!(
        names[0].ends_with("::names::join") && names[1].ends_with("::owner"),
        "{names:?}"
    );
    assert_eq!((CHAIN.at.file, CHAIN.at.line > 1), (file!(), true));

    let none = linchpin::migrations!("tests/pass/nothing_recorded");
    assert_eq!(
        (none.chain, none.files.len(), none.transforms.len()),
        ("", 0, 0)
    );
}
