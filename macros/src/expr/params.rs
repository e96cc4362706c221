//! The parameters of a call. Each parameter has one name, one type and one source.

use syn::Ident;
use syn::ext::IdentExt;

use super::cells;
use super::scope::{Place, Value};
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, Kind};
use crate::names;

/// The form in which a declaration names a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// `param(x)`: path, query or body.
    Param,
    /// `input(x)`: always the body.
    Input,
}

impl Via {
    fn as_str(self) -> &'static str {
        match self {
            Self::Param => "param",
            Self::Input => "input",
        }
    }
}

/// One call parameter.
#[derive(Debug, Clone)]
pub(crate) struct Param {
    /// The first use, as written.
    pub(crate) ident: Ident,
    /// snake_case, without `r#`.
    pub(crate) name: String,
    /// camelCase.
    pub(crate) wire: String,
    /// The field that determines the type.
    pub(crate) field: usize,
    /// The entity of that field: a position in the scope's siblings, or `None` for the operation's
    /// own entity.
    pub(crate) owner: Option<usize>,
    /// The kind of the field.
    pub(crate) kind: Kind,
    /// The type in messages.
    pub(crate) described: String,
    pub(crate) via: Via,
    /// Whether it is a list of the field's type.
    pub(crate) list: bool,
    /// Whether it is an element of the field, which is a list of strings.
    pub(crate) element: bool,
    pub(crate) required: bool,
    pub(crate) nullable: bool,
    /// The value if a call omits the parameter, and its text.
    pub(crate) default: Option<(Value, String)>,
    pub(crate) place: Place,
}

/// The parameters of an operation, in order of first use.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<Param>);

impl Params {
    /// Adds a use of a parameter and returns its position.
    ///
    /// Uses must agree on type, source and default. The parameter is required if one use requires
    /// it and none has a default. Null is allowed if all uses allow it.
    pub(crate) fn add(
        &mut self,
        mut used: Param,
        model: &EntityModel,
        d: &mut Diagnostics,
    ) -> Option<usize> {
        used.described = describe(&used, model);
        used.kind = model.fields[used.field].kind;
        let Some(index) = self.0.iter().position(|p| p.name == used.name) else {
            used.required &= used.default.is_none();
            self.0.push(used);
            return Some(self.0.len() - 1);
        };
        let first = &mut self.0[index];
        let name = &used.name;
        let (one, other) = (&first.described, &used.described);
        if one != other {
            d.error(
                &used.ident,
                format!("parameter `{name}` is used as {one} and as {other}"),
            )
            .help("give one of them another name");
            return None;
        }
        if first.via != used.via {
            let (one, other) = (first.via.as_str(), used.via.as_str());
            d.error(
                &used.ident,
                format!("parameter `{name}` comes from `{one}` and from `{other}`"),
            )
            .help(format!("write `{one}({name})` in both places"));
            return None;
        }
        match (&first.default, &used.default) {
            (Some((first_value, one)), Some((value, other)))
                if !cells::same(&model.fields[used.field], first_value, value) =>
            {
                d.error(
                    &used.ident,
                    format!("parameter `{name}` has two defaults: `{one}` and `{other}`"),
                )
                .help("write one default, in one place");
                return None;
            }
            (None, Some(_)) => first.default = used.default,
            _ => {}
        }
        // A default applies to every use.
        first.required = (first.required | used.required) && first.default.is_none();
        first.nullable &= used.nullable;
        Some(index)
    }

    /// Returns the parameters.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Param> {
        self.0.iter()
    }

    /// Returns the parameters, to set their positions in the request.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Param> {
        self.0.iter_mut()
    }

    /// Returns the parameter at a position.
    pub(crate) fn get(&self, index: usize) -> &Param {
        &self.0[index]
    }

    /// Returns the position of the parameter with this name, in any spelling.
    pub(crate) fn by_name(&self, name: &str) -> Option<usize> {
        let name = names::snake(name);
        self.0.iter().position(|p| p.name == name)
    }
}

impl Param {
    /// A use of a parameter.
    pub(crate) fn new(ident: &Ident, via: Via, field: usize) -> Self {
        let name = names::snake(&ident.unraw().to_string());
        Self {
            ident: ident.clone(),
            wire: names::camel(&name),
            name,
            field,
            owner: None,
            kind: Kind::Other,
            described: String::new(),
            via,
            list: false,
            element: false,
            required: true,
            nullable: false,
            default: None,
            place: Place::Body,
        }
    }
}

/// `string`, `a list of Status`.
fn describe(param: &Param, model: &EntityModel) -> String {
    let field = &model.fields[param.field];
    let one = match field.kind {
        Kind::StringArray if param.element || param.list => "string".to_owned(),
        kind => kind.name().map_or_else(
            || quote::ToTokens::to_token_stream(&field.inner).to_string(),
            str::to_owned,
        ),
    };
    if param.list {
        format!("a list of {one}")
    } else {
        one
    }
}
